// What an instruction costs apart from its work: the time of a program of very small ones.
#pragma once

#include "comm/world.h"
#include "measure/time_together.h"

namespace fourfold::measure {

/// The time of one instruction of a program of additions of 16 numbers on one stream, run by the
/// executor and the CPU's backend as steps are. All ranks call together; where `is_active` is false
/// this rank only waits.
Timing measure_instruction(comm::World& world, bool is_active, double seconds);

}  // namespace fourfold::measure
