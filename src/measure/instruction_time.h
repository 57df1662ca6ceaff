// What an instruction costs apart from its work, alone and where one stream waits for another: the
// time of programs of very small ones.
#pragma once

#include "comm/world.h"
#include "measure/time_together.h"

namespace fourfold::measure {

/// The time of one instruction of a program of additions of 16 numbers on one stream, run by the
/// executor and the CPU's backend as steps are. All ranks call together; where `is_active` is false
/// this rank only waits.
Timing measure_instruction(comm::World& world, bool is_active, double seconds);

/// The same where two streams make the additions in turn, each held by an event of the other. All
/// ranks do so at once.
Timing measure_handoff(comm::World& world, double seconds);

}  // namespace fourfold::measure
