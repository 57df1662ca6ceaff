#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/trace_file.h"
#include "pipeline/draw.h"
#include "screen/print.h"
#include "trace/chrome_format.h"

namespace fourfold::cli {
namespace {

/// "forward(3)" as a task; nothing for other texts.
std::optional<pipeline::Task> task_of(std::string_view text) {
  using pipeline::TaskKind;
  constexpr std::array<std::pair<std::string_view, TaskKind>, 3> kinds = {
      {{"forward", TaskKind::forward},
       {"backward", TaskKind::backward},
       {"weight_backward", TaskKind::weight_backward}}};
  const std::size_t bracket = text.find('(');
  if (bracket == text.npos) return std::nullopt;
  for (const auto& [name, kind] : kinds) {
    if (text.substr(0, bracket) != name) continue;
    pipeline::Task task{kind, 0, 0};
    const char* begin = text.data() + bracket + 1;
    const auto read = std::from_chars(begin, text.data() + text.size(), task.micro);
    if (read.ec == std::errc()) return task;
  }
  return std::nullopt;
}

/// By work of a rank, how often its task's name has come before with other tasks in between: a rank
/// of several stages does a task of that name for each.
std::vector<std::size_t> turns_of(const trace::RankTimeline& rank) {
  std::vector<std::size_t> turns;
  std::map<std::string_view, std::size_t> begun;
  std::string_view last;
  for (const trace::Work& work : rank.works) {
    if (work.task != last) ++begun[work.task];
    last = work.task;
    turns.push_back(begun[work.task] - 1);
  }
  return turns;
}

/// What a rank computed in a step: its tasks in their order, each from its first computation to its
/// last, and so without what it waits for at its ends.
struct RankTasks {
  pipeline::Order order;
  std::vector<pipeline::Interval> times;
};

RankTasks tasks_of(const trace::RankTimeline& rank, const trace::Step& step) {
  using trace::WorkClass;
  RankTasks tasks;
  const std::vector<std::size_t> turns = turns_of(rank);
  std::map<std::pair<std::string_view, std::size_t>, std::size_t> places;
  std::size_t last_stage = 0;
  for (const trace::Span& span : step.spans) {
    const trace::Work& work = rank.works[span.work];
    if (work.work_class == WorkClass::wait || work.work_class == WorkClass::communication ||
        work.work_class == WorkClass::feed)
      continue;
    auto task = task_of(work.task);
    if (!task) continue;
    task->stage = turns[span.work];
    last_stage = std::max(last_stage, task->stage);
    const pipeline::Interval when{1e-9 * static_cast<double>(span.when.begin_ns),
                                  1e-9 * static_cast<double>(span.when.end_ns)};
    const auto [place, is_new] =
        places.try_emplace({work.task, turns[span.work]}, tasks.order.size());
    if (is_new) {
      tasks.order.push_back(*task);
      tasks.times.push_back(when);
    }
    pipeline::Interval& time = tasks.times[place->second];
    time = {std::min(time.begin_s, when.begin_s), std::max(time.end_s, when.end_s)};
  }
  // The backward tasks of a micro-batch begin with the last stage.
  for (pipeline::Task& task : tasks.order)
    if (task.kind != pipeline::TaskKind::forward) task.stage = last_stage - task.stage;
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

}  // namespace

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
    RankTasks tasks = tasks_of(rank, step);
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

}  // namespace fourfold::cli
