// Which implementation computes each instruction, and the scratch it needs.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Writes the target's choice into every Compute; adds a buffer "workspace" for each stream that
/// needs one, as large as its hungriest kernel asks, and gives each its part of it.
program::Program choose_kernels(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
