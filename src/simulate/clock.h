// The walk through the streams of a job with a clock: program/meetings.h says who meets whom, this
// says when. No prices: tracks.h, routes.h.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "program/runners.h"
#include "simulate/routes.h"

namespace fourfold::simulate {

/// When an instruction was reached by its stream and when it was done, in seconds since the step
/// began; as a backend writes it down. What nobody has reached has none.
struct Times {
  double begin_s = 0, end_s = 0;
  bool operator==(const Times&) const = default;
};

/// An instruction that a stream never leaves.
struct Stuck {
  std::uint32_t rank = 0, instruction = 0;
};

struct Clocked {
  std::vector<std::vector<Times>> times;  // by runner and instruction; records have none
  std::optional<Stuck> stuck;             // the first of a job that never ends
};

/// Runs all streams of all runners to their ends.
/// - A stream does one instruction at a time. A wait holds it until the event is recorded.
/// - A collective begins when its last member has come, a message when both are there; all who meet
///   are held until it is over. First its latency passes, then its flows share ports with others
///   (network.h).
/// - Computation is slower by `slowdown_beside_communication` while its device takes part in
///   anything that has begun, and by the number of computations that the ranks of the device, and
///   the streams of each, have under way at the time: two streams hide nothing but the launches of
///   each other (Track::launch_s). In place of ranks of a class that share a device stands one that
///   counts as all of them.
/// Cost: n log n in the instructions of the runners; by class whatever the number of ranks.
Clocked run_clock(const Links& links, const program::MeetingsView& meetings,
                  const program::Runners& runners, std::span<const Track> tracks,
                  const Routes& routes);

}  // namespace fourfold::simulate
