// The way back through a norm over groups of channels, and through what follows the norm, as two
// instructions: what needs sums over pixels, and what reads those sums.
#pragma once

#include "machine/target.h"
#include "program/program.h"

namespace fourfold::compile {

/// Makes chains (op/fused.h) around each "group_norm_sums" and each "group_norm_moments_gradient".
/// The first have what makes the gradient of the norm's y (dropout, silu_gradient, the gradients of
/// a scale and shift, the norm itself where it is computed again) and what is made of the sums. The
/// others have both terms of the gradient of x, the sums that these are terms of, gradients of
/// biases that read the whole sum, and again the gradient of y where no dropout is before it.
/// Values that no other instruction reads lie between pieces. Does nothing where the target's
/// fusions do not name "group_norm_sums". Changes no bit where a kernel adds up in the order of its
/// pieces. Runs after `lower`, on collectives that are in place, and before anything has an
/// address.
program::Program fuse_norms(program::Program program, const machine::Target& target);

}  // namespace fourfold::compile
