#include "reshard/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/random.h"
#include "base/stopwatch.h"
#include "support/long_run.h"
#include "unit/reshard/exhaustive.h"

namespace fourfold::reshard {
namespace {

HostTask task(double seconds, std::vector<std::size_t> senders,
              std::vector<std::size_t> receivers) {
  HostTask made{seconds, {}, {}};
  for (const std::size_t host : senders) made.senders.emplace_back(host);
  for (const std::size_t host : receivers) made.receivers.emplace_back(host);
  return made;
}

/// No two tasks that need one way overlap, each is sent by one of its senders, and none is missing.
void expect_valid(const std::vector<HostTask>& tasks, const Schedule& schedule) {
  std::map<std::pair<HostId, bool>, std::vector<std::pair<double, double>>> ways;
  std::set<std::size_t> seen;
  double makespan_s = 0;
  for (const ScheduledTask& one : schedule.order) {
    const HostTask& of = tasks[one.task];
    EXPECT_TRUE(seen.insert(one.task).second);
    EXPECT_TRUE(std::ranges::count(of.senders, one.sender) == 1);
    const std::pair<double, double> times(one.start_s, one.start_s + of.seconds);
    makespan_s = std::max(makespan_s, times.second);
    ways[{one.sender, true}].push_back(times);
    for (const HostId host : of.receivers) {
      ways[{host, false}].push_back(times);
      if (host != of.receivers.back()) ways[{host, true}].push_back(times);
    }
  }
  EXPECT_EQ(seen.size(), tasks.size());
  EXPECT_EQ(schedule.makespan_s, makespan_s);
  for (auto& [way, times] : ways) {
    std::ranges::sort(times);
    for (std::size_t i = 1; i < times.size(); ++i)
      EXPECT_GE(times[i].first, times[i - 1].second - 1e-12);
  }
}

TEST(Schedule, naive_takes_the_first_sender_and_the_tasks_as_they_come) {
  const std::vector<HostTask> tasks{task(1, {0, 1}, {2}), task(2, {0, 1}, {3})};
  const Schedule schedule = make_schedule(tasks, Ordering::naive);
  EXPECT_EQ(schedule.makespan_s, 3);
  EXPECT_EQ(schedule.order, (std::vector<ScheduledTask>{{0, HostId(0), 0}, {1, HostId(0), 1}}));
}

TEST(Schedule, balance_only_gives_the_longest_to_the_lightest_and_is_not_optimal) {
  // The paper calls it so; with these durations it is not, whatever the receivers.
  std::vector<HostTask> tasks;
  for (const double seconds : {2., 3., 2., 3., 2.})
    tasks.push_back(task(seconds, {0, 1}, {2 + tasks.size()}));
  EXPECT_EQ(make_schedule(tasks, Ordering::balance_only).makespan_s, 7);
  EXPECT_EQ(make_schedule(tasks, Ordering::best).makespan_s, 6);
  EXPECT_EQ(make_schedule(tasks, Ordering::alpa).makespan_s, 6);  // by chance
}

TEST(Schedule, lets_a_host_send_and_receive_at_once_but_forward_only_what_it_gets) {
  // Host 1 receives and sends: full duplex.
  EXPECT_EQ(
      make_schedule(std::vector{task(1, {0}, {1}), task(1, {1}, {2})}, Ordering::best).makespan_s,
      1);
  // It passes the first on to host 3, and so its way out is taken.
  EXPECT_EQ(make_schedule(std::vector{task(1, {0}, {1, 3}), task(1, {1}, {2})}, Ordering::best)
                .makespan_s,
            2);
}

TEST(Schedule, bound_counts_receivers_and_sets_of_senders) {
  EXPECT_EQ(lower_bound_s({}), 0);
  EXPECT_EQ(lower_bound_s(std::vector{task(1, {0}, {1}), task(2, {2}, {1})}), 3);
  EXPECT_EQ(
      lower_bound_s(std::vector{task(2, {0, 1}, {2}), task(2, {0, 1}, {3}), task(2, {0, 1}, {4})}),
      3);
  EXPECT_EQ(lower_bound_s(std::vector{task(2, {0}, {2}), task(2, {0}, {3}), task(1, {0, 1}, {4})}),
            4);
}

/// Tasks between up to 5 + 5 hosts, some of which may be on both sides.
std::vector<HostTask> random_tasks(std::uint64_t number, std::size_t least, std::size_t most) {
  const Random random(7, random_stream("schedule_test"));
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) {
    return random.below(bound, drawn++, static_cast<std::uint32_t>(number));
  };
  const std::size_t senders = 1 + below(5), receivers = 1 + below(5);
  const std::size_t first_receiver = senders > 1 && below(4) == 0 ? senders / 2 : senders;
  const std::size_t count = least + below(most - least + 1);
  const std::uint64_t durations = 1 + below(4);
  std::vector<HostTask> tasks;
  while (tasks.size() < count) {
    HostTask made{static_cast<double>(1 + below(durations)), {}, {}};
    const std::uint64_t kind = below(3);  // one sender, all, some
    for (std::size_t host = 0; host < senders; ++host)
      if (kind == 1 || (kind == 2 && below(2) == 0)) made.senders.emplace_back(host);
    if (made.senders.empty()) made.senders.emplace_back(below(senders));
    for (std::size_t host = first_receiver; host < first_receiver + receivers; ++host)
      if (below(receivers) == 0 && std::ranges::count(made.senders, HostId(host)) == 0)
        made.receivers.emplace_back(host);
    if (!made.receivers.empty()) tasks.push_back(std::move(made));
  }
  return tasks;
}

TEST(Schedule, of_up_to_8_tasks_is_as_short_as_any) {
  const std::uint64_t count = is_long_run() ? 400 : 60;
  for (std::uint64_t number = 0; number < count; ++number) {
    // Trying all of 8 tasks with two senders each takes seconds.
    const std::vector<HostTask> tasks = random_tasks(number, 1, number % 10 == 0 ? 8 : 6);
    const Schedule schedule = make_schedule(tasks, Ordering::best);
    expect_valid(tasks, schedule);
    const double least_s = Exhaustive(tasks).least_s();
    EXPECT_NEAR(schedule.makespan_s, least_s, 1e-9) << number;
    // Depth first leaves out what cannot be shorter and nothing else, so alone it finds it too.
    EXPECT_NEAR(make_schedule(tasks, Ordering::depth_first).makespan_s, least_s, 1e-9) << number;
  }
}

TEST(Schedule, is_near_to_what_a_hundred_times_the_steps_find) {
  const std::uint64_t count = is_long_run() ? 500 : 12;
  double worst_ratio = 1, worst_distance = 1, sum_distance = 0, worst_s = 0, sum_s = 0;
  for (std::uint64_t number = 0; number < count; ++number) {
    const std::vector<HostTask> tasks = random_tasks(1000 + number, 9, 64);
    const Stopwatch watch;
    const Schedule schedule = make_schedule(tasks, Ordering::best);
    const double seconds = watch.seconds();
    worst_s = std::max(worst_s, seconds);
    sum_s += seconds;
    expect_valid(tasks, schedule);
    const double bound_s = lower_bound_s(tasks);
    double long_s = schedule.makespan_s;
    if (long_s > bound_s * (1 + 1e-12)) {  // else nothing is shorter
      const SearchLimits many{100 * SearchLimits().steps, 2};
      long_s = std::min(long_s, make_schedule(tasks, Ordering::best, many).makespan_s);
    }
    worst_ratio = std::max(worst_ratio, schedule.makespan_s / long_s);
    EXPECT_LE(schedule.makespan_s, 1.05 * long_s) << number << ", " << tasks.size() << " tasks";
    const double distance = schedule.makespan_s / bound_s;
    worst_distance = std::max(worst_distance, distance);
    sum_distance += distance;
  }
  // Each alone too, on a machine that does nothing else.
  EXPECT_LE(sum_s / static_cast<double>(count), 0.05);
  std::printf(
      "%d cases of 9 to 64 tasks: at most %.4f times what 100 times the steps find; %.4f times the "
      "lower bound on average, %.4f at most; %.1f ms at most\n",
      static_cast<int>(count), worst_ratio, sum_distance / static_cast<double>(count),
      worst_distance, 1e3 * worst_s);
}

TEST(Schedule, is_the_same_each_time_and_takes_its_seed) {
  const std::vector<HostTask> tasks = random_tasks(3, 40, 60);
  for (const Ordering ordering : {Ordering::naive, Ordering::alpa, Ordering::balance_only,
                                  Ordering::depth_first, Ordering::greedy, Ordering::best}) {
    const Schedule schedule = make_schedule(tasks, ordering);
    expect_valid(tasks, schedule);
    EXPECT_EQ(schedule, make_schedule(tasks, ordering)) << to_string(ordering);
    EXPECT_EQ(parse_ordering(to_string(ordering)), ordering);
  }
  EXPECT_EQ(parse_ordering("other"), std::nullopt);
}

}  // namespace
}  // namespace fourfold::reshard
