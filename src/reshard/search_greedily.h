// Greedy search with seeded randomness. Zhuang et al. 2023, section 3.2.
#pragma once

#include "reshard/schedule.h"

namespace fourfold::reshard {

/// Builds orders until one reaches the lower bound or the steps are taken, and keeps the shortest;
/// at least one is built. Orders are built in turn
/// - by rounds, as the paper has it: of some random sets of tasks that do not overlap, the one with
///   most hosts, of equals the one with most left on its ways;
/// - by time: always what can start soonest, of equals what has most left on its ways, both up to
///   chance.
/// The first of each kind has no chance in it. The sender is the least loaded that is free.
Schedule search_greedily(std::span<const HostTask> tasks, const SearchLimits& limits);

}  // namespace fourfold::reshard
