// Carries out the plan of a resharding between the ranks of a job: its time, its bytes, and every
// element. Not a step of training, which is a program.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/world.h"
#include "measure/time_together.h"
#include "reshard/lower.h"
#include "reshard/placement.h"

namespace fourfold::measure {

struct ReshardTimes {
  Timing timing;  // until the last rank has ended, a barrier included
  /// Bytes of messages that left their host, and what a ring passes in an all-gather; of one time.
  std::int64_t bytes_between_hosts = 0;
  std::int64_t wrong_elements = 0;  // of all receivers, after the last time
};

/// Each rank goes through its list, with messages under way both ways at once where the world lets
/// it. Elements are 32-bit words, numbered through the tensor. All ranks call together, those of
/// neither mesh too, and get the same figures. Requires elements of four bytes.
ReshardTimes measure_reshard(comm::World& world, const reshard::Placement& from,
                             const reshard::Placement& to, std::span<const reshard::HostId> host_of,
                             const reshard::ReshardPlan& plan, reshard::Turns turns,
                             double seconds);

}  // namespace fourfold::measure
