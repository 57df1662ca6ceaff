// Times of collectives and messages between the ranks of a job, by kind, group and size, and the
// line through them. Not their results (tests/parallel).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/world.h"
#include "measure/line_fit.h"
#include "measure/time_together.h"

namespace fourfold::measure {

/// All groups of `ranks` ranks at this stride do the same at once, as the groups of a mesh's axis
/// do. The kinds are those of machine::measured_kinds(); a "send" is one way of a message between
/// two ranks, each of which sends and receives in turn.
struct Exchange {
  std::string kind;
  std::int64_t ranks = 2, stride = 1;
  bool operator==(const Exchange&) const = default;
};

/// Every kind on groups of 2, 4, ... and all ranks that tile the world: neighbours, and as far
/// apart as the ranks allow; sends between neighbours and between ranks that are `host_ranks`
/// apart, for which the last ranks may have no peer.
std::vector<Exchange> exchanges_of(std::int64_t world, std::int64_t host_ranks);

struct ExchangeTimes {
  Exchange exchange;
  std::vector<TimedBytes> samples;  // bytes as machine::MeasuredGroup counts them
  double spread = 0;                // the median one of all sizes
  LineFit fit;
};

/// Times the exchange at each size, which is rounded down to what the members can share evenly, and
/// ends with the first that takes longer than 0.1 s. All ranks call together and get the same
/// figures. Requires at least two sizes, the smallest first, and ranks x stride to divide the world
/// but for sends.
ExchangeTimes measure_exchange(comm::World& world, const Exchange& exchange,
                               const std::vector<std::int64_t>& sizes_bytes, double seconds_each);

}  // namespace fourfold::measure
