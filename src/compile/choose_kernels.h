// Which implementation computes each instruction, and the scratch it needs.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Writes the target's choice into every Compute; adds one buffer "workspace" as large as the
/// hungriest one asks, and gives each its part of it.
program::Program choose_kernels(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
