// Products with what follows them as one instruction, for targets whose libraries do both at once:
// the bias, the bias and a GELU, the gradient of a GELU with the gradient of the bias before it.
// Unlike fuse_neighbours it may change bits: what is handed over is not rounded in between.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Makes the rows of op/fused_products.h that the target has, where nobody else reads the product
/// and no collective stands after it. Runs after `fuse_neighbours`, which gives biases to the
/// norms that add them on the way and makes the rows of bias and GELU that this pass looks for.
program::Program fuse_products(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
