// Jobs of several ranks, built by hand: all programs of all ranks, which the tests verify and
// break.
#pragma once

#include <vector>

#include "program/program.h"

namespace fourfold::program {

struct Grid {
  std::int64_t data = 1, z = 1, y = 1, x = 1;
  std::int64_t ranks() const { return data * z * y * x; }
};

/// A GPT block on a 4D grid, init, train and digest: an odd vocabulary cut on x, layer norm over a
/// hidden size cut on y, heads scattered on y through blocked buffers, weights gathered on z,
/// gradients reduced on the axes that cut the batch, and an embedding whose optimizer state is cut
/// by data.
std::vector<Bundle> grid_job(const Grid& grid);
/// The bundle of one of its ranks, with any number of micro-batches: to reach any size.
Bundle grid_bundle(const Grid& grid, Rank rank, std::int64_t micros);

/// Two meshes of `width` ranks each, cut by data: the first embeds, the second computes the loss;
/// activations and gradients of two micro-batches travel between them.
std::vector<Bundle> pipeline_job(std::int64_t width);

}  // namespace fourfold::program
