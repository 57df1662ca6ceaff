// The rounding of many weights as one instruction: most are small, and a launch for each takes
// longer than its work. Not a change of any bit.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Puts casts together where the first of them stands, as far as nothing between touches what they
/// touch. Their copies are then there from the beginning of the step, where those of most weights
/// are kept until its last backward pass anyway. Does nothing where the target has no "cast_list".
/// Runs after `lower`, on collectives that are in place, and before anything has an address.
program::Program fuse_casts(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
