#include "report/page.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/format.h"
#include "base/units.h"
#include "report/chart.h"
#include "report/html_text.h"
#include "report/page_style.h"

namespace fourfold::report {
namespace {

using Runs = std::span<const Run>;

int color_of(std::size_t run) {
  return static_cast<int>(run % static_cast<std::size_t>(page_colors));
}

std::string chip(const Run& run, std::size_t index) {
  return format("<span class=\"chip c{}\"><i></i><span>{}</span></span>", color_of(index),
                escaped(run.name));
}

std::string header(Runs runs) {
  if (runs.size() == 1)
    return format("<h1>{}</h1><p class=\"soft\">{}</p>", escaped(runs[0].name),
                  escaped(runs[0].path));
  std::string chips;
  for (std::size_t i = 0; i < runs.size(); ++i) chips += chip(runs[i], i);
  return format("<h1>{} runs compared</h1><div class=\"legend\">{}</div>", runs.size(), chips);
}

std::string notes(Runs runs) {
  std::string items;
  for (const Run& run : runs)
    for (const std::string& note : run.notes)
      items +=
          format("<li>{}{}</li>", runs.size() > 1 ? escaped(run.name) + ": " : "", escaped(note));
  return items.empty() ? "" : format("<div class=\"card warn\"><ul>{}</ul></div>", items);
}

std::optional<Point> best(const std::vector<Point>& points) {
  const auto least = std::min_element(points.begin(), points.end(),
                                      [](const Point& a, const Point& b) { return a.y < b.y; });
  return least == points.end() ? std::nullopt : std::optional(*least);
}

/// Something that is told of each run.
struct Figure {
  std::string name;
  std::string value, remark;  // the former empty: not known
};

std::string at_step(double step) {
  return "at step " + format_grouped(std::llround(step));
}

std::vector<Figure> figures(const Run& run) {
  const Metrics& m = run.metrics;
  std::vector<Figure> list(6);
  list[0] = {"Training loss", "", ""};
  if (!m.loss.empty())
    list[0] = {"Training loss", format("{:.4f}", m.loss.back().y), at_step(m.loss.back().x)};
  list[1] = {"Best validation loss", "", ""};
  if (const auto point = best(m.val_loss))
    list[1] = {list[1].name, format("{:.4f}", point->y), at_step(point->x)};
  const bool has_time = m.time_s > 0;
  list[2] = {"Steps", m.steps > 0 ? format_grouped(m.steps) : "",
             m.tokens > 0 ? format_count(m.tokens) + " tokens" : ""};
  list[3] = {"Time in steps", has_time ? format_duration(m.time_s) : "",
             has_time
                 ? format_duration(m.time_s / static_cast<double>(m.step_time_s.size())) + " a step"
                 : ""};
  list[4] = {"Throughput", has_time ? format_count(m.tokens / m.time_s) + " tok/s" : "",
             m.mfu.empty() ? "" : format("MFU {:.1f}%", 100 * m.mfu.back().y)};
  list[5] = {"Memory", m.peak_resident_bytes > 0 ? format_bytes(m.peak_resident_bytes) : "",
             m.memory_bytes > 0 ? format_bytes(m.memory_bytes) + " planned a rank" : ""};
  return list;
}

std::string tiles(const Run& run) {
  std::string html;
  for (const Figure& figure : figures(run))
    html += format("<div class=\"card\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>", figure.name,
                   figure.value.empty() ? "&ndash;" : figure.value, figure.remark);
  return format("<dl class=\"tiles\">{}</dl>", html);
}

/// A row a fact, a column a run. `differs` marks rows whose values are not all equal.
std::string table(Runs runs,
                  const std::vector<std::pair<std::string, std::vector<std::string>>>& rows,
                  bool marks_differences) {
  std::string html;
  if (runs.size() > 1) {
    html += "<tr><th></th>";
    for (std::size_t i = 0; i < runs.size(); ++i) html += format("<th>{}</th>", chip(runs[i], i));
    html += "</tr>";
  }
  for (const auto& [name, values] : rows) {
    const bool differs =
        marks_differences &&
        std::any_of(values.begin(), values.end(), [&](const auto& v) { return v != values[0]; });
    html += format("<tr{}><td>{}</td>", differs ? " class=\"differs\"" : "", escaped(name));
    for (const std::string& value : values)
      html += format("<td>{}</td>", value.empty() ? "&ndash;" : escaped(value));
    html += "</tr>";
  }
  return format("<div class=\"scroll\"><table>{}</table></div>", html);
}

std::string summary_table(Runs runs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (const Run& run : runs) {
    const auto list = figures(run);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (rows.size() <= i) rows.push_back({list[i].name, {}});
      const bool has_remark = !list[i].remark.empty();
      rows[i].second.push_back(
          list[i].value.empty() ? "" : list[i].value + (has_remark ? ", " + list[i].remark : ""));
    }
  }
  return format("<h2>Summary</h2><div class=\"card\">{}</div>", table(runs, rows, false));
}

/// A chart of one column of all runs.
struct Panel {
  std::string title, unit;
  std::vector<Point> Metrics::* points;
  double factor = 1;
  bool has_dots = false;
  bool is_wide = false;
  bool may_be_log = false;
};

std::string figure_of(Runs runs, const Panel& panel) {
  std::vector<std::vector<Point>> scaled;
  for (const Run& run : runs) {
    scaled.push_back(run.metrics.*panel.points);
    for (Point& point : scaled.back()) point.y *= panel.factor;
  }
  std::vector<ChartCurve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i)
    curves.push_back({runs[i].name, scaled[i], color_of(i), panel.has_dots});
  const std::string drawing = draw_chart(curves, "step", {.may_be_log = panel.may_be_log});
  if (drawing.empty()) return {};
  const std::string unit = panel.unit.empty() ? "" : format(" <small>{}</small>", panel.unit);
  if (!panel.is_wide)
    return format("<figure class=\"card\"><figcaption>{}{}</figcaption>{}</figure>", panel.title,
                  unit, drawing);
  return format(
      "<figure class=\"card wide\"><figcaption>{}{}</figcaption><div class=\"broad\">{}</div>"
      "<div class=\"narrow\">{}</div></figure>",
      panel.title, unit, draw_chart(curves, "step", {1170, 340}), drawing);
}

std::string charts(Runs runs) {
  const std::vector<Panel> panels = {
      {"Training loss", "", &Metrics::loss, 1, false, true},
      {"Validation loss", "", &Metrics::val_loss, 1, true},
      {.title = "Gradient norm",
       .unit = "before clipping",
       .points = &Metrics::grad_norm,
       .may_be_log = true},
      {"Learning rate", "", &Metrics::lr},
      {"Tokens per second", "", &Metrics::tokens_per_s},
      {"Step time", "ms", &Metrics::step_time_s, 1e3},
      {"Exposed communication", "ms a step", &Metrics::exposed_communication_s, 1e3},
      {"Model FLOP utilization", "%", &Metrics::mfu, 100},
  };
  std::string html;
  for (const Panel& panel : panels) html += figure_of(runs, panel);
  if (html.empty()) return {};
  return format(
      "<h2>Curves</h2><div class=\"charts\">{}</div><p class=\"soft\" style=\"margin-top:10px\">"
      "Where there are more steps than columns of the drawing, the line is their mean, and the "
      "shade reaches from the least to the largest value.</p>",
      html);
}

/// All names of the facts of all runs, in the order of the first that has them.
std::vector<std::pair<std::string, std::vector<std::string>>> rows_of(
    Runs runs, const std::vector<Fact> Run::* facts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  std::map<std::string, std::size_t> places;
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (const Fact& fact : runs[run].*facts) {
      const auto [place, is_new] = places.try_emplace(fact.name, rows.size());
      if (is_new) rows.push_back({fact.name, std::vector<std::string>(runs.size())});
      rows[place->second].second[run] = fact.value;
    }
  return rows;
}

std::string facts_section(Runs runs, const std::string& title,
                          const std::vector<Fact> Run::* facts) {
  auto rows = rows_of(runs, facts);
  if (rows.empty()) return {};
  std::string html = format("<h2>{}</h2>", title);
  if (runs.size() > 1) {
    auto different = rows;
    std::erase_if(different, [](const auto& row) {
      return std::all_of(row.second.begin(), row.second.end(),
                         [&](const auto& value) { return value == row.second[0]; });
    });
    html += different.empty()
                ? "<p class=\"soft\">The same for all runs.</p>"
                : format("<div class=\"card\">{}</div><p></p>", table(runs, different, false));
  }
  return html + format("<details class=\"card\"><summary>All {} settings</summary>{}</details>",
                       rows.size(), table(runs, rows, runs.size() > 1));
}

/// Something of each run that has it, under its name.
std::string each(Runs runs, const std::string& title,
                 const std::function<std::string(const Run&)>& make) {
  std::string html;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string content = make(runs[i]);
    if (content.empty()) continue;
    html += format("<div class=\"card\" style=\"margin-bottom:10px\">{}{}</div>",
                   runs.size() > 1 ? format("<p>{}</p>", chip(runs[i], i)) : "", content);
  }
  return html.empty() ? "" : format("<h2>{}</h2>{}", title, html);
}

std::string sample(const Run& run) {
  return run.sample.empty() ? "" : format("<pre>{}</pre>", escaped(run.sample));
}

/// Its first part is a table of the model, the memory by class and the like.
std::string plan(const Run& run) {
  if (run.plan.empty()) return {};
  const std::size_t end = std::min(run.plan.find("\n\n"), run.plan.size());
  const std::string rest = run.plan.substr(std::min(end + 2, run.plan.size()));
  std::string html = format("<pre>{}</pre>", escaped(run.plan.substr(0, end)));
  if (!rest.empty())
    html += format(
        "<details style=\"margin-top:12px\"><summary>Layout of every tensor</summary><pre "
        "class=\"wide\">{}</pre></details>",
        escaped(rest));
  return html;
}

std::string checkpoints(const Run& run) {
  if (run.checkpoints.empty()) return {};
  std::string html = "<tr><th>Step</th><th>Size</th><th>Saved on</th></tr>";
  for (const SavedCheckpoint& saved : run.checkpoints)
    html += format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>", format_grouped(saved.step),
                   saved.size_bytes > 0 ? format_bytes(saved.size_bytes) : "&ndash;",
                   escaped(saved.remark));
  return format("<div class=\"scroll\"><table>{}</table></div>", html);
}

}  // namespace

std::string make_page(std::span<const Run> runs, const std::string& made_by) {
  const std::string title = runs.size() == 1 ? runs[0].name : format("{} runs", runs.size());
  std::string body = header(runs) + notes(runs);
  body += runs.size() == 1 ? tiles(runs[0]) : summary_table(runs);
  body += charts(runs) + each(runs, "Samples", sample);
  body += facts_section(runs, runs.size() > 1 ? "Configuration: differences" : "Configuration",
                        &Run::config);
  body += facts_section(runs, runs.size() > 1 ? "Environment: differences" : "Environment",
                        &Run::environment);
  body += each(runs, "Plan and memory", plan) + each(runs, "Checkpoints", checkpoints);
  return format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>{}<footer>{}</footer></main>"
      "</body></html>\n",
      escaped(title), page_style, body, escaped(made_by));
}

}  // namespace fourfold::report
