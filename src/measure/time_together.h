// Times work that all ranks of a job do together: what a step waits for is the slowest of them.
#pragma once

#include <functional>

#include "comm/world.h"

namespace fourfold::measure {

/// The time of one call; a round counts its slowest rank.
struct Timing {
  double best_s = 0;  // a tenth of the rounds are faster: with little of others' work beside it
  double median_s =
      0;              // what is usual, where ranks wait for each other: sleeps and wakes are in it
  double mean_s = 0;  // what all rounds cost, waits for a core included

  /// How much longer half of the rounds take: a few percent on a machine that is left alone.
  double spread() const { return median_s / best_s - 1; }
};

/// Calls `body` on all ranks for about `seconds`, at least three rounds, each as many calls as take
/// a fifth of a millisecond; one round goes before to warm up. All ranks call together, as often as
/// each other, and get the same figures. Where `body` only enqueues, `settle` waits for what it has
/// enqueued, at the end of each round.
Timing time_together(
    comm::World& world, double seconds, const std::function<void()>& body,
    const std::function<void()>& settle = [] {});

}  // namespace fourfold::measure
