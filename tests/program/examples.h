// Small but complete programs, built by hand, that the tests print, read, verify and break.
#pragma once

#include <cstdint>

#include "program/program.h"

namespace fourfold::program {

/// One rank trains embedding, layer norm, MLP, head: streams math and feed, `micros` micro-batches,
/// AdamW.
Program tiny_train(std::int64_t micros = 2);
/// Initialises all that tiny_train keeps.
Program tiny_init();
/// The loss of one micro-batch over the same parameters.
Program tiny_evaluate();
/// init, train and evaluate over one persistent region.
Bundle tiny_bundle();

/// Rank 3 of a 2 x 2 mesh (axes z, x): a weight gathered on z, a partial product reduced on x,
/// gradients scattered on z.
Program sharded_train();

/// One of every kind but Compute, with partial slices, several meshes and every role.
Program every_kind();

}  // namespace fourfold::program
