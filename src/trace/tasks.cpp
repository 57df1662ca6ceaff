#include "trace/tasks.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace fourfold::trace {
namespace {

/// Splits "forward(3)"; nothing for other texts.
std::optional<DoneTask> task_of(std::string_view text) {
  const std::size_t bracket = text.find('(');
  if (bracket == text.npos) return std::nullopt;
  DoneTask task{.kind = std::string(text.substr(0, bracket))};
  const auto read =
      std::from_chars(text.data() + bracket + 1, text.data() + text.size(), task.micro);
  return read.ec == std::errc() ? std::optional(std::move(task)) : std::nullopt;
}

std::vector<std::size_t> turns_of(const RankTimeline& rank) {
  std::vector<std::size_t> turns;
  std::map<std::string_view, std::size_t> begun;
  std::string_view last;
  for (const Work& work : rank.works) {
    if (work.task != last) ++begun[work.task];
    last = work.task;
    turns.push_back(begun[work.task] - 1);
  }
  return turns;
}

}  // namespace

std::vector<DoneTask> tasks_of(const RankTimeline& rank, const Step& step) {
  std::vector<DoneTask> tasks;
  const std::vector<std::size_t> turns = turns_of(rank);
  std::map<std::pair<std::string_view, std::size_t>, std::size_t> places;
  for (const Span& span : step.spans) {
    const Work& work = rank.works[span.work];
    if (work.work_class == WorkClass::wait || work.work_class == WorkClass::communication ||
        work.work_class == WorkClass::feed)
      continue;
    auto task = task_of(work.task);
    if (!task) continue;
    task->turn = turns[span.work];
    task->begin_s = 1e-9 * static_cast<double>(span.when.begin_ns);
    task->end_s = 1e-9 * static_cast<double>(span.when.end_ns);
    const auto [place, is_new] = places.try_emplace({work.task, task->turn}, tasks.size());
    if (is_new) tasks.push_back(*task);
    DoneTask& done = tasks[place->second];
    done.begin_s = std::min(done.begin_s, task->begin_s);
    done.end_s = std::max(done.end_s, task->end_s);
  }
  return tasks;
}

}  // namespace fourfold::trace
