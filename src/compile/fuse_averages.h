// The moving averages of many weights as one instruction: a launch for each takes longer than the
// work on most of them. Not a change of any bit.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Puts moving averages of one decay together where the first of them stands, as far as nothing
/// between touches what they touch. Does nothing where the target has no "moving_average_list".
/// Runs after `lower`, on collectives that are in place, and before anything has an address.
program::Program fuse_averages(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
