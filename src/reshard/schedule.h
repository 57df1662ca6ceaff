// Which host sends each task, and in which order: the load-balancing and scheduling problem of
// Zhuang et al. 2023, section 3.2, on hosts. Not the ranks of a host, and not what is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reshard/links.h"

namespace fourfold::reshard {

/// What one host of `senders` sends to all of `receivers`, none of which is among the senders.
/// While it lasts it has the way out of its sender, the ways into its receivers, and the ways out
/// of all receivers but the last, which pass it on. Two tasks that need the same way do not
/// overlap; where no host both sends and receives that is the paper's eq. 3.
struct HostTask {
  double seconds = 0;
  std::vector<HostId> senders, receivers;  // ascending, not empty
  bool operator==(const HostTask&) const = default;
};

struct ScheduledTask {
  std::size_t task = 0;
  HostId sender;
  double start_s = 0;
  bool operator==(const ScheduledTask&) const = default;
};

/// Tasks in an order, each started as soon as all before it that need one of its ways are over.
struct Schedule {
  std::vector<ScheduledTask> order;
  double makespan_s = 0;
  bool operator==(const Schedule&) const = default;
};

/// How senders and order are chosen.
enum class Ordering : std::uint8_t {
  naive,         // the first sender of each; the tasks as they come
  alpa,          // the rival's: as they come, each by the sender with the least load so far
  balance_only,  // longest first, each by the sender with the least load so far (eq. 4, greedily)
  depth_first,   // all orders and senders, as far as a budget reaches (search_depth_first.h)
  greedy,        // seeded random rounds (search_greedily.h)
  best           // the better of the last two: what is used unless told otherwise
};
std::string_view to_string(Ordering ordering);
std::optional<Ordering> parse_ordering(std::string_view text);

/// How far searches go: in steps, never in seconds, so that every rank finds the same schedule
/// without a word to another. One step is one look at one task.
struct SearchLimits {
  std::int64_t steps = 100'000;
  std::uint64_t seed = 1;
  bool operator==(const SearchLimits&) const = default;
};

/// Every task once. A pure function of its arguments. Cost: n log n, and for searches the limit.
Schedule make_schedule(std::span<const HostTask> tasks, Ordering ordering,
                       const SearchLimits& limits = {});

/// No schedule is shorter: the most that has to pass into or out of a receiver; and for each set of
/// hosts that are the senders of a task, and for all together, what no other host can send, divided
/// by their number; and the longest task.
double lower_bound_s(std::span<const HostTask> tasks);

/// The starts and the makespan of tasks in a given order with given senders.
Schedule with_starts(std::span<const HostTask> tasks, std::vector<ScheduledTask> order);

}  // namespace fourfold::reshard
