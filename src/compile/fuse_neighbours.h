// Chains of rows as one instruction each, where the target names the chain: a bias and a GELU, a
// residual connection and the norm after it, a product and its bias. Which rows these are is the
// target's alone.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Makes the chains (op/fused.h) that the target has kernels for, the first of its list first. Rows
/// join where nothing between them touches what they touch, so a collective between two of them
/// keeps them apart; values that are handed on and that nobody else reads are never stored, and
/// their buffers go. Changes no bit, but where a kernel hands on a product unrounded.
/// Runs after `lower`, on collectives that are in place, and before anything has an address.
program::Program fuse_neighbours(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
