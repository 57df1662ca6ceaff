#include "trace/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "program/program.h"
#include "trace/summary.h"

namespace fourfold::trace {
namespace {

constexpr std::size_t most_worst = 5;

/// True if both do the same instructions on the same streams. Kernels may differ.
bool do_the_same(const RankTimeline& a, const RankTimeline& b) {
  return a.streams == b.streams &&
         std::ranges::equal(a.works, b.works, [](const Work& one, const Work& other) {
           return one.instruction == other.instruction && one.stream == other.stream &&
                  one.name == other.name && one.text == other.text && one.task == other.task;
         });
}

/// The ranks of a timeline that have these numbers.
Timeline only(const Timeline& timeline, const std::vector<std::size_t>& ranks) {
  Timeline some{timeline.program, {}};
  for (const RankTimeline& rank : timeline.ranks)
    if (std::ranges::find(ranks, rank.rank) != ranks.end()) some.ranks.push_back(rank);
  return some;
}

std::vector<std::size_t> common_ranks(const Timeline& predicted, const std::string& predicted_file,
                                      const Timeline& measured, const std::string& measured_file) {
  std::vector<std::size_t> ranks;
  for (const RankTimeline& rank : predicted.ranks) {
    const auto same = std::ranges::find(measured.ranks, rank.rank, &RankTimeline::rank);
    if (same == measured.ranks.end()) continue;
    if (!do_the_same(rank, *same))
      throw UserError(
          ExitCode::bad_data,
          format("{} and {} are of different jobs: rank {} does not do the same in both; "
                 "simulate the configuration of the run, with as many ranks",
                 predicted_file, measured_file, rank.rank));
    ranks.push_back(rank.rank);
  }
  if (ranks.empty())
    throw UserError(ExitCode::bad_data,
                    format("{} and {} have no rank in common", predicted_file, measured_file));
  return ranks;
}

/// Seconds by name, in the order in which they are shown.
using Seconds = std::vector<std::pair<std::string, double>>;

Seconds kinds_of(const Summary& summary) {
  Seconds list;
  double rest_s = summary.step_s;
  const auto add = [&](std::string what, double seconds) {
    rest_s -= seconds;
    list.emplace_back(std::move(what), seconds);
  };
  for (const PartOverRanks& part : summary.parts)
    if (part.stream == program::math_stream && part.what != to_string(WorkClass::wait) &&
        find_work_class(part.what))
      add(part.what, part.mean.seconds);
  if (const double beside_s = summary.mean(&RankSummary::gradients_s); beside_s > 0)
    add("gradients alone", beside_s);
  for (const Traffic& traffic : summary.traffic) add("exposed " + traffic.name, traffic.exposed_s);
  list.emplace_back("what is left", rest_s);
  return list;
}

/// Seconds of each instruction, by what it does; waits left out.
std::map<std::string, double> instructions_of(const Timeline& timeline) {
  std::map<std::string, double> seconds;
  for (const RankTimeline& rank : timeline.ranks) {
    const auto runs =
        static_cast<double>(rank.steps.size()) * static_cast<double>(timeline.ranks.size());
    for (const Step& step : rank.steps)
      for (const Span& span : step.spans) {
        const Work& work = rank.works[span.work];
        if (work.work_class == WorkClass::wait) continue;
        const std::string& what = work.text.empty() ? work.name : work.text;
        seconds[what] += 1e-9 * static_cast<double>(span.when.duration_ns()) / runs;
      }
  }
  return seconds;
}

std::vector<Beside> worst_of(const Timeline& predicted, const Timeline& measured) {
  std::vector<Beside> list;
  const std::map<std::string, double> measured_s = instructions_of(measured);
  for (const auto& [what, seconds] : instructions_of(predicted)) {
    const auto same = measured_s.find(what);
    list.push_back({what, seconds, same == measured_s.end() ? 0 : same->second});
  }
  return furthest_off(std::move(list), most_worst);
}

std::string table(const std::string& title, const std::vector<Beside>& rows, double step_s) {
  constexpr std::size_t widest_text = 52;
  const int decimals = step_s < 10e-3 ? 3 : step_s < 1 ? 2 : 1;
  const auto milliseconds = [&](double seconds) {
    return format("{:.{}f}", 1e3 * seconds, decimals);
  };
  std::size_t width = title.size();
  for (const Beside& row : rows) width = std::max(width, std::min(row.what.size(), widest_text));
  std::string text =
      format("{:<{}}  {:>10}  {:>10}  {:>10}\n", title, width, "predicted", "measured", "ratio");
  for (const Beside& row : rows) {
    const std::string what =
        row.what.size() <= widest_text ? row.what : row.what.substr(0, widest_text - 3) + "...";
    text += format("{:<{}}  {:>10}  {:>10}  {:>10}\n", what, width, milliseconds(row.predicted_s),
                   milliseconds(row.measured_s),
                   row.measured_s > 0 ? format("{:.2f}", row.predicted_s / row.measured_s) : "-");
  }
  return text;
}

Json json_of(const std::vector<Beside>& rows) {
  Json list = Json::array();
  for (const Beside& row : rows) list.push(to_json(row));
  return list;
}

}  // namespace

std::vector<Beside> furthest_off(std::vector<Beside> rows, std::size_t most) {
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [](const Beside& beside) { return std::abs(beside.error_s()); });
  rows.resize(std::min(rows.size(), most));
  return rows;
}

Comparison compare(const Timeline& predicted, const std::string& predicted_file,
                   const Timeline& measured, const std::string& measured_file) {
  Comparison result;
  result.ranks = common_ranks(predicted, predicted_file, measured, measured_file);
  const Timeline one = only(predicted, result.ranks), other = only(measured, result.ranks);
  const Summary first = summarize(one, predicted_file), second = summarize(other, measured_file);
  result.step = {"step", first.step_s, second.step_s};
  const Seconds of_measured = kinds_of(second);
  for (const auto& [what, seconds] : kinds_of(first)) {
    const auto same = std::ranges::find(of_measured, what, &std::pair<std::string, double>::first);
    result.kinds.push_back({what, seconds, same == of_measured.end() ? 0 : same->second});
  }
  result.worst = worst_of(one, other);
  return result;
}

std::string to_text(const Comparison& comparison) {
  std::vector<Beside> rows = {comparison.step};
  rows.insert(rows.end(), comparison.kinds.begin(), comparison.kinds.end());
  const double step_s = std::max(comparison.step.predicted_s, comparison.step.measured_s);
  return format("predicted beside measured, ms a step, mean over {} rank{}\n\n",
                comparison.ranks.size(), comparison.ranks.size() == 1 ? "" : "s") +
         table("work", rows, step_s) + "\n" + table("worst predictions", comparison.worst, step_s);
}

Json to_json(const Beside& beside) {
  return Json::object({{"what", beside.what},
                       {"predicted_s", beside.predicted_s},
                       {"measured_s", beside.measured_s}});
}

Json to_json(const Comparison& comparison) {
  Json ranks = Json::array();
  for (const std::size_t rank : comparison.ranks) ranks.push(rank);
  return Json::object({{"ranks", std::move(ranks)},
                       {"step", to_json(comparison.step)},
                       {"kinds", json_of(comparison.kinds)},
                       {"worst", json_of(comparison.worst)}});
}

}  // namespace fourfold::trace
