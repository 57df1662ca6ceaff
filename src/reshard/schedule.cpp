#include "reshard/schedule.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "reshard/search_depth_first.h"
#include "reshard/search_greedily.h"
#include "reshard/search_problem.h"

namespace fourfold::reshard {
namespace {

constexpr std::array<std::pair<Ordering, std::string_view>, 6> orderings{
    {{Ordering::naive, "naive"},
     {Ordering::alpa, "alpa"},
     {Ordering::balance_only, "balance_only"},
     {Ordering::depth_first, "depth_first"},
     {Ordering::greedy, "greedy"},
     {Ordering::best, "best"}}};

/// The tasks in the order given, each sent by the first of its senders with the least load so far.
Schedule by_lightest_sender(std::span<const HostTask> tasks, std::span<const std::size_t> order) {
  std::map<HostId, double> load_s;
  std::vector<ScheduledTask> scheduled;
  for (const std::size_t task : order) {
    const HostId sender = *std::ranges::min_element(tasks[task].senders, {},
                                                    [&](HostId host) { return load_s[host]; });
    load_s[sender] += tasks[task].seconds;
    scheduled.push_back({task, sender, 0});
  }
  return with_starts(tasks, std::move(scheduled));
}

/// The better of greedy and depth-first search, which prunes by what greedy has found.
Schedule search_both(std::span<const HostTask> tasks, const SearchLimits& limits) {
  Schedule greedy = search_greedily(tasks, limits);
  Schedule other = search_depth_first(tasks, limits, greedy.makespan_s);
  return !other.order.empty() && other.makespan_s < greedy.makespan_s ? other : greedy;
}

}  // namespace

std::string_view to_string(Ordering ordering) {
  for (const auto& [value, text] : orderings)
    if (value == ordering) return text;
  fail_internal("an ordering has a name");
}

std::optional<Ordering> parse_ordering(std::string_view text) {
  for (const auto& [value, name] : orderings)
    if (name == text) return value;
  return std::nullopt;
}

Schedule with_starts(std::span<const HostTask> tasks, std::vector<ScheduledTask> order) {
  std::map<HostId, double> out_s, in_s;
  Schedule schedule;
  for (ScheduledTask& scheduled : order) {
    const HostTask& task = tasks[scheduled.task];
    double& sender_s = out_s[scheduled.sender];
    double start = sender_s;
    for (const HostId host : task.receivers) {
      start = std::max(start, in_s[host]);
      if (host != task.receivers.back()) start = std::max(start, out_s[host]);
    }
    const double end = start + task.seconds;
    sender_s = end;
    for (const HostId host : task.receivers) {
      in_s[host] = end;
      if (host != task.receivers.back()) out_s[host] = end;
    }
    scheduled.start_s = start;
    schedule.makespan_s = std::max(schedule.makespan_s, end);
  }
  schedule.order = std::move(order);
  return schedule;
}

Schedule make_schedule(std::span<const HostTask> tasks, Ordering ordering,
                       const SearchLimits& limits) {
  std::vector<std::size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  switch (ordering) {
    case Ordering::naive: {
      std::vector<ScheduledTask> scheduled;
      for (const std::size_t task : order) scheduled.push_back({task, tasks[task].senders[0], 0});
      return with_starts(tasks, std::move(scheduled));
    }
    case Ordering::alpa:
      return by_lightest_sender(tasks, order);
    case Ordering::balance_only:
      std::ranges::stable_sort(order, std::greater<>(),
                               [&](std::size_t task) { return tasks[task].seconds; });
      return by_lightest_sender(tasks, order);
    case Ordering::depth_first:
      return search_depth_first(tasks, limits, std::nullopt);
    case Ordering::greedy:
      return search_greedily(tasks, limits);
    case Ordering::best:
      return search_both(tasks, limits);
  }
  fail_internal("an ordering is one of those that have a name");
}

double lower_bound_s(std::span<const HostTask> tasks) {
  const SearchProblem problem(tasks);
  double longest = 0;
  for (const HostTask& task : tasks) longest = std::max(longest, task.seconds);
  return std::max(longest, SearchProgress(problem).bound_s(0));
}

}  // namespace fourfold::reshard
