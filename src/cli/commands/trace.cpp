#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/command.h"
#include "pipeline/draw.h"
#include "rundir/run_files.h"
#include "screen/print.h"
#include "trace/chrome_format.h"
#include "trace/comparison.h"
#include "trace/summary.h"
#include "trace/tasks.h"

namespace fourfold::cli {
namespace {

struct TraceSummaryArguments {
  std::string path, beside;
  bool json = false;
};

struct TraceTasksArguments {
  std::string path;
  std::optional<std::int64_t> step;
};

void add_file_option(OptionList& options, std::string& path) {
  options.add("FILE", path, "A trace, or a run directory with one", {.is_required = true});
}

void list_options(OptionList& options, TraceSummaryArguments& given) {
  add_file_option(options, given.path);
  options.add("--beside", given.beside,
              "What `simulate --trace` wrote of the same job: predicted beside measured");
  options.add("--json", given.json, "Print all numbers as JSON");
}

void list_options(OptionList& options, TraceTasksArguments& given) {
  add_file_option(options, given.path);
  options.add("--step", given.step, "Which of its steps; the last one");
}

/// A folder stands for the trace of the run in it.
std::string trace_file_of(const std::string& path) {
  if (file_exists(join_path(path, rundir::RunFiles::trace)))
    return join_path(path, rundir::RunFiles::trace);
  if (file_exists(join_path(path, rundir::RunFiles::config)))
    throw UserError(ExitCode::bad_data, format("the run in {} has no {}; train with --trace N",
                                               path, rundir::RunFiles::trace));
  return path;
}

void trace_summary(const TraceSummaryArguments& arguments) {
  const std::string path = trace_file_of(arguments.path);
  const trace::TimelineFile file = trace::parse_timeline_file(read_file(path), path);
  const trace::Timeline& timeline = file.timeline;
  const trace::Summary summary = trace::summarize(timeline, path);
  Json json = arguments.json ? trace::to_json(summary) : Json();
  std::string text = arguments.json ? "" : trace::to_text(summary);
  std::optional<trace::Comparison> comparison;
  if (!arguments.beside.empty())
    comparison =
        trace::compare(trace::parse_chrome_json(read_file(arguments.beside), arguments.beside),
                       arguments.beside, timeline, path);
  else if (file.predicted)
    comparison = trace::compare(*file.predicted, path + ", as predicted", timeline, path);
  if (comparison && arguments.json)
    json.set("beside", trace::to_json(*comparison));
  else if (comparison)
    text += "\n" + trace::to_text(*comparison);
  if (arguments.json) text = json.dump() + "\n";
  screen::print("%s", text.c_str());
}

/// What a rank computed in a step, as an order of a pipeline and its times.
struct RankTasks {
  pipeline::Order order;
  std::vector<pipeline::Interval> times;
};

RankTasks order_of(const trace::RankTimeline& rank, const trace::Step& step) {
  using pipeline::TaskKind;
  const std::map<std::string, TaskKind> kinds = {{"forward", TaskKind::forward},
                                                 {"backward", TaskKind::backward},
                                                 {"weight_backward", TaskKind::weight_backward}};
  RankTasks tasks;
  std::size_t last_stage = 0;
  for (const trace::DoneTask& task : trace::tasks_of(rank, step)) {
    const auto kind = kinds.find(task.kind);
    if (kind == kinds.end()) continue;
    last_stage = std::max(last_stage, task.turn);
    tasks.order.push_back({kind->second, task.turn, task.micro});
    tasks.times.push_back({task.begin_s, task.end_s});
  }
  // The backward tasks of a micro-batch begin with the last stage.
  for (pipeline::Task& task : tasks.order)
    if (task.kind != TaskKind::forward) task.stage = last_stage - task.stage;
  return tasks;
}

const trace::Step& step_of(const trace::RankTimeline& rank, std::optional<std::int64_t> number,
                           const std::string& path) {
  if (!number) return rank.steps.back();
  const auto step = std::ranges::find(rank.steps, *number, &trace::Step::number);
  if (step != rank.steps.end()) return *step;
  throw UserError(ExitCode::bad_config,
                  format("--step {}: {} has the steps {} to {}", *number, path,
                         rank.steps.front().number, rank.steps.back().number));
}

void trace_tasks(const TraceTasksArguments& arguments) {
  const std::string path = trace_file_of(arguments.path);
  const trace::Timeline timeline = trace::parse_chrome_json(read_file(path), path);
  std::vector<pipeline::Order> orders;
  pipeline::Timing timing;
  std::int64_t number = 0;
  std::optional<double> begin_s;
  for (const trace::RankTimeline& rank : timeline.ranks) {
    if (rank.steps.empty()) continue;
    const trace::Step& step = step_of(rank, arguments.step, path);
    RankTasks tasks = order_of(rank, step);
    number = step.number;
    for (const pipeline::Interval& time : tasks.times)
      begin_s = std::min(begin_s.value_or(time.begin_s), time.begin_s);
    orders.push_back(std::move(tasks.order));
    timing.tasks.push_back(std::move(tasks.times));
  }
  if (orders.empty() || std::ranges::all_of(orders, &pipeline::Order::empty))
    throw UserError(ExitCode::bad_data,
                    format("{} has no step with tasks of micro-batches; `fourfold train --trace N` "
                           "writes one",
                           path));
  for (std::vector<pipeline::Interval>& times : timing.tasks)
    for (pipeline::Interval& time : times) {
      time = {time.begin_s - *begin_s, time.end_s - *begin_s};
      timing.makespan_s = std::max(timing.makespan_s, time.end_s);
    }
  screen::print(
      "step %lld of %s: %s; F forward, B backward, W gradients of weights, by "
      "micro-batch, after the stage where a rank has several; dots wait\n\n%s",
      static_cast<long long>(number), path.c_str(), format_duration(timing.makespan_s).c_str(),
      pipeline::to_text(orders, timing, 160, "rank").c_str());
}

}  // namespace

void add_trace(Commands& commands) {
  commands.add_group({"trace", After{"data"},
                      "Look at timelines of steps, as `train --trace` writes",
                      "trace summary runs/look"});
  commands.add({"trace summary", After{}, "Print where the time of the steps went",
                "trace summary runs/look --json"},
               list_options, trace_summary);
  commands.add({"trace tasks", After{"summary"}, "Draw when each rank did its tasks of a step",
                "trace tasks runs/look --step 3"},
               list_options, trace_tasks);
}

}  // namespace fourfold::cli
