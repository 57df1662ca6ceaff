#include "reshard/search_problem.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace fourfold::reshard {
namespace {

constexpr std::size_t way_out(std::size_t host) {
  return 2 * host;
}
constexpr std::size_t way_in(std::size_t host) {
  return 2 * host + 1;
}

}  // namespace

SearchProblem::SearchProblem(std::span<const HostTask> tasks) : num_tasks(tasks.size()) {
  std::map<HostId, std::size_t> numbers;
  for (const HostTask& task : tasks) {
    for (const HostId host : task.senders) numbers.emplace(host, 0);
    for (const HostId host : task.receivers) numbers.emplace(host, 0);
  }
  for (auto& [host, number] : numbers) {
    number = hosts.size();
    hosts.push_back(host);
  }
  std::map<std::tuple<double, std::vector<HostId>, std::vector<HostId>>, std::size_t> known;
  std::map<std::vector<std::size_t>, std::size_t> sets;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const HostTask& task = tasks[i];
    require(!task.senders.empty() && !task.receivers.empty(), "a task passes between hosts");
    const auto [at, is_new] =
        known.emplace(std::tuple(task.seconds, task.senders, task.receivers), kinds.size());
    if (is_new) {
      TaskKind kind{task.seconds, {}, {}, {}};
      for (const HostId host : task.senders) kind.senders.push_back(numbers.at(host));
      for (const HostId host : task.receivers) {
        kind.ways.push_back(way_in(numbers.at(host)));
        if (host != task.receivers.back()) kind.ways.push_back(way_out(numbers.at(host)));
      }
      sets.emplace(kind.senders, 0);
      all.insert(all.end(), kind.senders.begin(), kind.senders.end());
      kinds.push_back(std::move(kind));
    }
    kinds[at->second].tasks.push_back(i);
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  if (!all.empty()) sets.emplace(all, 0);
  for (auto& [set, number] : sets) {
    number = sender_sets.size();
    sender_sets.push_back(set);
  }
  kinds_of_set.resize(sender_sets.size());
  sets_of_kind.resize(kinds.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind)
    for (std::size_t set = 0; set < sender_sets.size(); ++set)
      if (std::ranges::includes(sender_sets[set], kinds[kind].senders)) {
        kinds_of_set[set].push_back(kind);
        sets_of_kind[kind].push_back(set);
      }
}

SearchProgress::SearchProgress(const SearchProblem& problem)
    : problem_(problem),
      num_left_(problem.num_tasks),
      free_s_(2 * problem.hosts.size(), 0),
      way_s_(2 * problem.hosts.size(), 0),
      set_s_(problem.sender_sets.size(), 0) {
  for (std::size_t i = 0; i < problem.kinds.size(); ++i) {
    const TaskKind& kind = problem.kinds[i];
    left_.push_back(kind.tasks.size());
    const double seconds = kind.seconds * static_cast<double>(kind.tasks.size());
    for (const std::size_t way : kind.ways) way_s_[way] += seconds;
    for (const std::size_t set : problem.sets_of_kind[i]) set_s_[set] += seconds;
  }
}

double SearchProgress::start_s(std::size_t kind, std::size_t sender) const {
  double start = free_s_[way_out(sender)];
  for (const std::size_t way : problem_.kinds[kind].ways) start = std::max(start, free_s_[way]);
  return start;
}

void SearchProgress::add(std::size_t kind, std::size_t sender) {
  const TaskKind& of = problem_.kinds[kind];
  const double end = start_s(kind, sender) + of.seconds;
  free_s_[way_out(sender)] = end;
  for (const std::size_t way : of.ways) {
    free_s_[way] = end;
    way_s_[way] -= of.seconds;
  }
  for (const std::size_t set : problem_.sets_of_kind[kind]) set_s_[set] -= of.seconds;
  makespan_s_ = std::max(makespan_s_, end);
  --left_[kind];
  --num_left_;
}

void SearchProgress::remove(std::size_t kind, std::span<const double> before,
                            double makespan_before_s) {
  const TaskKind& of = problem_.kinds[kind];
  std::ranges::copy(before, free_s_.begin());
  for (const std::size_t way : of.ways) way_s_[way] += of.seconds;
  for (const std::size_t set : problem_.sets_of_kind[kind]) set_s_[set] += of.seconds;
  makespan_s_ = makespan_before_s;
  ++left_[kind];
  ++num_left_;
}

double SearchProgress::urgency_s(std::size_t kind) const {
  double most = 0;
  for (const std::size_t way : problem_.kinds[kind].ways)
    most = std::max(most, free_s_[way] + way_s_[way]);
  for (const std::size_t set : problem_.sets_of_kind[kind])
    most = std::max(most, set_s_[set] / static_cast<double>(problem_.sender_sets[set].size()));
  return most;
}

double SearchProgress::bound_s(double earliest_s) const {
  // Sums of times that were added and taken away again are not exactly zero.
  constexpr double nothing = 1e-9;
  double bound = makespan_s_;
  for (std::size_t way = 0; way < way_s_.size(); ++way)
    if (way_s_[way] > nothing * bound)
      bound = std::max(bound, std::max(free_s_[way], earliest_s) + way_s_[way]);
  for (std::size_t set = 0; set < set_s_.size(); ++set) {
    if (set_s_[set] <= nothing * bound) continue;
    double sum = set_s_[set];
    for (const std::size_t host : problem_.sender_sets[set])
      sum += std::max(free_s_[way_out(host)], earliest_s);
    bound = std::max(bound, sum / static_cast<double>(problem_.sender_sets[set].size()));
  }
  return bound;
}

Schedule schedule_of(std::span<const HostTask> tasks, const SearchProblem& problem,
                     const std::vector<std::pair<std::size_t, std::size_t>>& kinds_and_senders) {
  std::vector<std::size_t> used(problem.kinds.size(), 0);
  std::vector<ScheduledTask> order;
  for (const auto& [kind, sender] : kinds_and_senders)
    order.push_back({problem.kinds[kind].tasks[used[kind]++], problem.hosts[sender], 0});
  return with_starts(tasks, std::move(order));
}

}  // namespace fourfold::reshard
