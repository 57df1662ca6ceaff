// Sharded graph to the unrolled list of instructions of a step, over buffers without addresses yet.
#pragma once

#include "compile/departures.h"
#include "compile/persistent_region.h"
#include "compile/sharded_graph.h"
#include "compile/transfers.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// Carries out the tasks of the graph's mesh in the plan's order, once a micro-batch; a value takes
/// the slot of its micro-batch modulo their number (step_tasks). Where a micro-batch is processed
/// in chunks, the steps between two collectives of activations are carried out for one chunk after
/// another. Feeds go on their own stream;
/// collectives go on the stream of their axis, what leaves for another mesh, comes from it or is
/// passed on between ranks that want it, on one of that mesh and direction. A sum is overwritten
/// by its first producer and added to by all others. Kernels, addresses and waits are not decided
/// here; what differs between ranks of a mesh is left to program::bind, except who sends what to
/// another mesh: those are the sends and receives of `rank`. What leaves later than it is made
/// (Departures) stands at the end of a later task.
program::Program lower(const ShardedGraph& graph, const plan::Plan& plan,
                       const PersistentRegion& persistent, const Transfers& transfers,
                       const Departures& departures, Rank rank);

}  // namespace fourfold::compile
