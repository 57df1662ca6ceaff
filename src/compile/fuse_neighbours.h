// Neighbours that read the same elements as one instruction: bias and GELU, a residual connection
// and the norm after it with bias and dropout, the same backward, the loss and its gradient. Not a
// change of any bit.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Makes the fused rows (op/fused.h) that the target has. Rows join where nothing between them
/// touches what they touch, so a collective between two of them keeps them apart; values that
/// nobody else reads are never written, and their buffers go.
/// Runs after `lower`, on collectives that are in place, and before anything has an address.
program::Program fuse_neighbours(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
