// The levels of instructions above the least one that a build has: scripts/cmake/OwnLoops.cmake
// writes their list.
#pragma once

#include <span>

#include "kernels/cpu/own_loops.h"

namespace fourfold::kernels::cpu {

struct BuiltLevel {
  const char* name;
  bool (*runs_here)();
  const OwnLoops& (*loops)();
};
/// The least one first.
std::span<const BuiltLevel> built_levels();

}  // namespace fourfold::kernels::cpu
