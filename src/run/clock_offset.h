// How far the clocks of ranks on different hosts stand apart.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "comm/world.h"

namespace fourfold::run {

/// A question to another rank and its answer: when it left here, what the clock there showed, when
/// the answer arrived here.
struct Ping {
  std::int64_t sent_ns = 0, remote_ns = 0, received_ns = 0;
};

/// What to add to times of the remote clock to have them on this one, from the ping with the
/// shortest round trip; wrong by at most half of that (Cristian 1989). Requires a ping.
std::int64_t estimate_offset_ns(std::span<const Ping> pings);

/// What to add to this rank's times to have them on rank 0's clock; exactly 0 for ranks whose
/// `clock` is that of rank 0. All ranks call it together, between programs. `now_ns` reads this
/// rank's clock. Errors: Aborted.
std::int64_t clock_offset_ns(comm::World& world, const std::string& clock,
                             const std::function<std::int64_t()>& now_ns);

/// Names the clock of trace::now_ns on this host: the same for all processes since it started.
/// Empty where the host does not tell.
std::string clock_of_host();

}  // namespace fourfold::run
