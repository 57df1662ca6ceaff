// When a mesh receives what others send it: ahead of the task that reads it, and in the order in
// which it is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/mesh_order.h"
#include "compile/sharded_graph.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// What goes along an edge of the plan, of one micro-batch. All tasks are places in the order of
/// their mesh (MeshOrder).
struct Arrival {
  std::size_t edge = 0;
  std::int64_t micro = 0;
  std::size_t from = 0;    // mesh
  std::size_t sender = 0;  // the task there that makes it
  std::size_t reader = 0;  // the task here that reads it first
  std::size_t before = 0;  // its receipt stands in front of this one
};

/// The orders of all meshes for a graph.
std::vector<MeshOrder> mesh_orders(const plan::Plan& plan, op::ProgramKind graph);

/// All that a mesh receives in a graph, in the order in which it does. What a task reads of other
/// meshes is received before the task of its kind before it, so that a transfer has the time of a
/// micro-batch; before itself where nothing is received beside computation; and never after what
/// the same mesh sends later, for its sends wait for one another. Cost: n log n in messages.
std::vector<Arrival> arrivals_on(MeshId mesh, const plan::Plan& plan, op::ProgramKind graph,
                                 const std::vector<MeshOrder>& orders);

/// A receipt that is carried out, of one micro-batch.
struct Receipt {
  std::size_t step = 0;  // of the graph, a Handover
  std::int64_t micro = 0;
  std::size_t reader = 0;  // the task that reads it first
  std::size_t before = 0;  // it stands in front of this one
  bool operator==(const Receipt&) const = default;
};

/// The receipts of a mesh's graph in the order in which they are carried out.
std::vector<Receipt> receipts_of(const ShardedGraph& graph, const plan::Plan& plan);

}  // namespace fourfold::compile
