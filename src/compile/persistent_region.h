// The persistent region, common to all programs of a bundle.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

struct PersistentRegion {
  std::vector<program::Buffer> buffers;  // every program's table begins with these
  std::int64_t bytes = 0;
};

/// Step block, result block, then every persistent value of any graph of one mesh, in order of
/// first appearance, then a copy in the type of the computation of each parameter
/// that is `rounded`.
PersistentRegion persistent_region(const graph::ModelGraphs& model, const plan::Plan& plan,
                                   MeshId mesh = {}, const std::set<std::string>& rounded = {});

/// Where buffers begin. A warp of a GPU reads 512 bytes at a time, of lines of 128 bytes: an update
/// of AdamW takes an H200 1,220 us where tensors begin at odd multiples of 64 bytes, 912 us at
/// multiples of 256.
inline constexpr std::int64_t buffer_alignment = 256;
constexpr std::int64_t align_up(std::int64_t bytes) {
  return (bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
}

}  // namespace fourfold::compile
