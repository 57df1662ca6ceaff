// Sharded graph to the unrolled list of instructions of a step, over buffers without addresses yet.
#pragma once

#include "compile/persistent_layout.h"
#include "compile/sharded_graph.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// Unrolls forward and backward over the micro-batches and appends the update; each becomes a task.
/// Feeds go on their own stream, with two slots by micro-batch when there are several, so that the
/// next micro-batch arrives early; collectives go on the stream of their axis. A sum is overwritten
/// by its first producer and added to by all others. Kernels, addresses and waits are not decided
/// here; what differs between ranks of a mesh is left to program::bind, except who sends what to
/// another mesh: those are the sends and receives of `rank`.
program::Program lower(const ShardedGraph& graph, const plan::Plan& plan,
                       const PersistentLayout& persistent, Rank rank);

}  // namespace fourfold::compile
