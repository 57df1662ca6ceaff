#include "report/page.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/units.h"
#include "report/chart.h"
#include "report/chart_data.h"
#include "report/html_text.h"
#include "report/page_script.h"
#include "report/page_style.h"

namespace fourfold::report {
namespace {

using Runs = std::span<const Run>;

/// Up to the hash of the script, which is another one in other versions.
constexpr std::string_view page_beginning =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'; script-src '";

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
  if (m.val_is_of_averages && !m.val_loss.empty())
    list[1].remark += ", of the averages of the weights";
  if (m.val_loss_of_all)
    list[1].remark += format("; {:.4f} of the whole split {}", m.val_loss_of_all->y,
                             at_step(m.val_loss_of_all->x));
  const bool has_time = m.time_s > 0;
  list[2] = {"Steps", m.steps > 0 ? format_grouped(m.steps) : "",
             m.items > 0 ? format_count(m.items) + " " + m.unit : ""};
  list[3] = {"Time in steps", has_time ? format_duration(m.time_s) : "",
             has_time
                 ? format_duration(m.time_s / static_cast<double>(m.step_time_s.size())) + " a step"
                 : ""};
  list[4] = {"Throughput", has_time ? format_count(m.items / m.time_s) + " " + m.unit + "/s" : "",
             m.mean_mfu ? format("MFU {:.1f}%", 100 * *m.mean_mfu) : ""};
  if (m.mean_mfu && m.mean_hfu) list[4].remark += format(", HFU {:.1f}%", 100 * *m.mean_hfu);
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
  bool is_loss = false;                            // a reader may choose its axis
  std::vector<Point> Metrics::* beside = nullptr;  // drawn as dots in the same colour
  std::string beside_name = {};
};

/// "1 to 100"; "from 101" of a session that was killed.
std::string steps_of(const RunSession& session) {
  if (!session.last_step) return format("from {}", format_grouped(session.first_step + 1));
  if (*session.last_step <= session.first_step) return "none";
  if (session.counts_to)
    return format("{} to {}, and to {} what a later one did again",
                  format_grouped(session.first_step + 1), format_grouped(*session.counts_to),
                  format_grouped(*session.last_step));
  return format("{} to {}", format_grouped(session.first_step + 1),
                format_grouped(*session.last_step));
}

/// Where the later sessions of a run begin.
std::vector<ChartMark> marks_of(const Run& run, std::size_t index, bool is_alone) {
  std::vector<ChartMark> marks;
  for (const RunSession& session : run.sessions) {
    if (!session.counts || session.first_step == 0) continue;
    std::string words = format("{}session {} begins after step {}", is_alone ? "" : run.name + ": ",
                               session.number, format_grouped(session.first_step));
    for (const std::string& change : session.changes) words += "\n" + change;
    marks.push_back({static_cast<double>(session.first_step), std::move(words), color_of(index)});
  }
  return marks;
}

using Marks = std::vector<std::vector<ChartMark>>;

Marks marks_of_runs(Runs runs) {
  Marks marks;
  for (std::size_t i = 0; i < runs.size(); ++i)
    marks.push_back(marks_of(runs[i], i, runs.size() == 1));
  return marks;
}

std::string figure_of(Runs runs, const Panel& panel, std::span<const ChartMark> marks) {
  std::vector<std::vector<Point>> scaled;
  for (const Run& run : runs) {
    scaled.push_back(run.metrics.*panel.points);
    for (Point& point : scaled.back()) point.y *= panel.factor;
  }
  std::vector<ChartCurve> curves;
  std::vector<std::size_t> run_of_curve;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool is_several = runs.size() > 1 || panel.beside == nullptr;
    curves.push_back(
        {is_several ? runs[i].name : "training", scaled[i], color_of(i), panel.has_dots});
    run_of_curve.push_back(i);
    if (panel.beside == nullptr || (runs[i].metrics.*panel.beside).empty()) continue;
    curves.push_back({(runs.size() > 1 ? runs[i].name + ", " : "") + panel.beside_name,
                      runs[i].metrics.*panel.beside, color_of(i), true});
    run_of_curve.push_back(i);
  }
  const ChartForm form{.may_be_log = panel.may_be_log, .may_clip = !panel.may_be_log};
  const std::string drawing = draw_chart(curves, "step", form, marks);
  if (drawing.empty()) return {};
  ChartForm broad = form;
  broad.width = 1170;
  broad.height = 340;
  const std::string unit = panel.unit.empty() ? "" : format(" <small>{}</small>", panel.unit);
  return format(
      "<figure class=\"card{}\" data-axis=\"{}\"{} data-curves=\"{}\"><figcaption>{}{}"
      "</figcaption>{}<div class=\"values\" hidden></div></figure>",
      panel.is_wide ? " wide" : "", axis_of(curves, form), panel.is_loss ? " data-loss" : "",
      escaped(chart_data(curves, run_of_curve)), panel.title, unit,
      panel.is_wide ? format("<div class=\"broad\">{}</div><div class=\"narrow\">{}</div>",
                             draw_chart(curves, "step", broad, marks), drawing)
                    : drawing);
}

/// Shown by the script, which they are for; with what the runs count.
constexpr std::string_view switches =
    "<div class=\"switches\" hidden><span>across<button name=\"x\" value=\"steps\">steps</button>"
    "<button name=\"x\" value=\"items\">{}</button></span><span>loss"
    "<button name=\"loss\" value=\"linear\">linear</button>"
    "<button name=\"loss\" value=\"log\">logarithmic</button></span>"
    "<span>Drag across a stretch to see it large.<button class=\"whole\" hidden>the whole run"
    "</button></span></div>";

/// What the runs count: "tokens".
std::string unit_of(Runs runs) {
  const std::string& unit = runs[0].metrics.unit;
  const auto is_other = [&](const Run& run) { return run.metrics.unit != unit; };
  return unit.empty() || std::any_of(runs.begin(), runs.end(), is_other) ? "items" : unit;
}

std::string capitalised(std::string word) {
  word[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
  return word;
}

std::string charts(Runs runs) {
  const std::string unit = unit_of(runs), rate = capitalised(unit) + " per second";
  const std::vector<Panel> panels = {
      {.title = "Loss",
       .unit = "training, and validation as dots",
       .points = &Metrics::loss,
       .is_wide = true,
       .is_loss = true,
       .beside = &Metrics::val_loss,
       .beside_name = "validation"},
      {.title = "Validation loss",
       .unit = "",
       .points = &Metrics::val_loss,
       .has_dots = true,
       .is_loss = true},
      {.title = "Validation accuracy",
       .unit = "%",
       .points = &Metrics::val_accuracy,
       .factor = 100,
       .has_dots = true},
      {.title = "Gradient norm",
       .unit = "before clipping",
       .points = &Metrics::grad_norm,
       .may_be_log = true},
      {"Learning rate", "", &Metrics::lr},
      {rate, "", &Metrics::items_per_s},
      {"Step time", "ms", &Metrics::step_time_s, 1e3},
      {"Exposed communication", "ms a step", &Metrics::exposed_communication_s, 1e3},
      {"Model FLOP utilization", "%", &Metrics::mfu, 100},
      {"Hardware FLOP utilization", "%", &Metrics::hfu, 100},
  };
  const Marks marks = marks_of_runs(runs);
  std::vector<ChartMark> all_marks;
  for (const auto& of_run : marks) all_marks.insert(all_marks.end(), of_run.begin(), of_run.end());
  std::string html;
  for (const Panel& panel : panels) html += figure_of(runs, panel, all_marks);
  if (html.empty()) return {};
  return format(
      "<h2>Curves</h2>{}<div class=\"charts\" data-runs=\"{}\" data-unit=\"{}\">{}</div>"
      "<p class=\"soft\" style=\"margin-top:10px\">"
      "Where there are more steps than columns of the drawing, the line is their mean, and the "
      "shade reaches from the least to the largest value.{}</p>",
      format(switches, escaped(unit)), escaped(runs_data(runs, marks)), escaped(unit), html,
      all_marks.empty() ? "" : " Dashed lines show where a later session of a run begins.");
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

std::string samples(const Run& run) {
  std::string html = run.sample.empty() ? "" : format("<pre>{}</pre>", escaped(run.sample));
  std::string earlier;
  for (const Sample& sample : run.metrics.samples)
    earlier += format("<p class=\"soft\">after step {}</p><pre>{}</pre>",
                      format_grouped(sample.step), escaped(sample.text));
  if (!earlier.empty())
    html += format(
        "<details{}><summary>{} written during the training</summary><div>{}</div></details>",
        run.sample.empty() ? " open" : " style=\"margin-top:12px\"",
        counted(static_cast<std::int64_t>(run.metrics.samples.size()), "text"), earlier);
  return html;
}

/// "a: 1 -> 2" with an arrow that no line ends in.
std::string with_arrow(std::string change) {
  constexpr std::string_view plain = " -&gt; ";
  const std::size_t at = change.find(plain);
  return at == change.npos ? change : change.replace(at, plain.size(), "&nbsp;&rarr; ");
}

std::string sessions(const Run& run) {
  if (run.sessions.size() < 2) return {};
  std::string html =
      "<tr><th>Session</th><th>Steps</th><th>Changed against the one before</th><th>Command</th>"
      "</tr>";
  for (const RunSession& session : run.sessions) {
    std::string changes;
    for (const std::string& change : session.changes)
      changes += format("<div>{}</div>", with_arrow(escaped(change)));
    html += format("<tr><td>{}</td><td>{}{}</td><td>{}</td><td><code>{}</code></td></tr>",
                   session.number, steps_of(session),
                   session.counts ? "" : ", which later ones did again",
                   changes.empty() ? "&ndash;" : changes, escaped(session.command));
  }
  return format("<div class=\"scroll\"><table>{}</table></div>", html);
}

std::string grids(const Run& run) {
  return run.grids.empty() ? "" : format("<pre>{}</pre>", escaped(run.grids));
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

/// Milliseconds of a step, predicted and measured, and the one by the other.
std::string beside_rows(const std::vector<PredictedWork>& works) {
  std::string html;
  for (const PredictedWork& work : works)
    html += format(
        "<tr><td>{}</td><td>{:.3f}</td><td>{:.3f}</td><td>{}</td></tr>", escaped(work.what),
        1e3 * work.predicted_s, 1e3 * work.measured_s,
        work.measured_s > 0 ? format("{:.2f}", work.predicted_s / work.measured_s) : "&ndash;");
  return html;
}

std::string prediction(const Run& run) {
  if (!run.predicted) return {};
  const PredictedStep& predicted = *run.predicted;
  const std::string head =
      "<th>Predicted, ms</th><th>Measured, ms</th><th>Predicted / measured</th></tr>";
  std::vector<PredictedWork> rows = {predicted.step};
  rows.insert(rows.end(), predicted.kinds.begin(), predicted.kinds.end());
  std::string html =
      format("<p class=\"soft\">On {}; the step is the median of {} up to step {}. {}</p>",
             escaped(predicted.machine), counted(predicted.num_steps, "step"),
             format_grouped(predicted.last_step),
             predicted.num_traced > 0 ? format("Work is the mean of {} that {} traced.",
                                               counted(predicted.num_traced, "step"),
                                               predicted.num_traced == 1 ? "was" : "were")
                                      : "train --trace N tells which work the time went into.");
  html += format("<div class=\"scroll\"><table><tr><th>Of a step</th>{}{}</table></div>", head,
                 beside_rows(rows));
  if (!predicted.worst.empty())
    html += format("<div class=\"scroll\"><table><tr><th>Worst predictions</th>{}{}</table></div>",
                   head, beside_rows(predicted.worst));
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
  const std::string curves = charts(runs);
  const bool has_charts = !curves.empty();
  body += curves + each(runs, "Predicted beside measured", prediction) +
          each(runs, "Sessions", sessions) + each(runs, "Samples", samples);
  body += facts_section(runs, runs.size() > 1 ? "Configuration: differences" : "Configuration",
                        &Run::config);
  body += facts_section(runs, runs.size() > 1 ? "Environment: differences" : "Environment",
                        &Run::environment);
  body += each(runs, "Plan and memory", plan) + each(runs, "Grids the planner chose among", grids) +
          each(runs, "Checkpoints", checkpoints);
  return format(
      "{}{}'\">\n"
      "<title>{}</title>\n<style>{}</style></head>\n<body><main>{}<footer>{}</footer></main>"
      "{}</body></html>\n",
      page_beginning, page_script_hash, escaped(title), page_style, body, escaped(made_by),
      // Without a chart there is nothing to do.
      has_charts ? format("<script type=\"module\">{}</script>", page_script) : "");
}

bool is_page(std::string_view beginning) {
  return beginning.starts_with(page_beginning);
}

}  // namespace fourfold::report
