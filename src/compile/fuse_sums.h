// The norm of all gradients as one instruction. Not a change of any bit where a kernel adds up
// tensor by tensor.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Puts "squared_norm" rows that add to the same number together where the last of them stands, as
/// far as nothing between looks at that number. Does nothing where the target's fusions do not name
/// the row.
/// Runs after `lower` and before anything has an address.
program::Program fuse_sums(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
