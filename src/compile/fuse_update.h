// The update of many tensors as one instruction: one pass over all state, with one decision, one
// set of scalars and one parallel region. Not a change of any bit.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Puts updates that share their scalars and their optimizer's settings together where the first of
/// them stands, as far as nothing between touches what they touch. Gathers of updated rows follow
/// after them. Does nothing where the target has no list of that optimizer, such as "sgd_list".
/// Runs after `lower`, on collectives that are in place, and before anything has an address.
program::Program fuse_update(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
