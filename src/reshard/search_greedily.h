// Greedy search with seeded randomness. Zhuang et al. 2023, section 3.2.
#pragma once

#include "reshard/schedule.h"

namespace fourfold::reshard {

/// Builds orders until one reaches the lower bound or the steps are taken, and keeps the shortest;
/// at least one is built.
/// - The first by rounds, as the paper has it: of some random sets of tasks that do not overlap,
/// the
///   one with most hosts, of equals the one with most left on its ways.
/// - All others by time: always what can start soonest, of equals what has most left on its ways
///   times the chance of its kind. Chances are all 1 at first, then drawn; in three of four turns
///   they are those of the shortest order so far with a fifth drawn anew.
/// The sender is the least loaded of those that are free.
Schedule search_greedily(std::span<const HostTask> tasks, const SearchLimits& limits);

}  // namespace fourfold::reshard
