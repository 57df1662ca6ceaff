// When a mesh receives what others send it: ahead of the task that reads it, and in the order in
// which it is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/sharded_graph.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// A receipt that is carried out, of one micro-batch. `reader` and `before` are places in the order
/// of the mesh (MeshOrder).
struct Receipt {
  std::size_t step = 0;  // of the graph, a Handover
  std::int64_t micro = 0;
  std::size_t reader = 0;  // the task that reads it first
  std::size_t before = 0;  // it stands in front of this one
  bool operator==(const Receipt&) const = default;
};

/// All receipts of a graph in the order in which they are carried out. What a task reads of other
/// meshes is received before the task of its kind before it, so that a transfer has the time of a
/// micro-batch; before itself where nothing is received beside computation; and never after what
/// the same mesh sends later, for its sends wait for one another. Cost: n log n in messages.
std::vector<Receipt> receipts_of(const ShardedGraph& graph, const plan::Plan& plan);

}  // namespace fourfold::compile
