// Two passes that prepare programs for the chains of norms over groups of channels: two norms of
// one tensor share its moments, and two chains that read one gradient make it each for itself. Not
// the chains (fuse_norms.h).
#pragma once

#include "program/program.h"

namespace fourfold::compile {

/// A tensor that two norms of a task read, as a skip connection's, has its moments taken once:
/// readers of the second moments read the first ones, where these still lie.
program::Program share_moments(program::Program program);

/// Computes the gradient of what a norm makes a second time for "group_norm_apply_gradient", where
/// a "silu_gradient" of a norm that is computed again makes it: both chains of the way back then
/// have it in registers, and nobody stores it. Dropout before it would be drawn a second time, so
/// that such gradients stay as they are.
program::Program repeat_silu_gradients(program::Program program);

}  // namespace fourfold::compile
