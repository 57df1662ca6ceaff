// Makes every change of sharding visible: where an op wants a value in another state than the one
// it is kept in, and where an op gives one in another state.
#pragma once

#include "compile/recompute.h"
#include "compile/sharded_graph.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// The rules, forward and backward alike:
///  - an activation is brought into the state in which it is kept as soon as it is made;
///  - a read in another state is converted before its first reader, and the result is kept for
///    later ones; with recomputation, parameters only within a segment of one phase;
///  - what several ops add to a gradient in one micro-batch is reduced once, then added to the sum
///    over micro-batches;
///  - where the plan says so, what collectives carry of the gradient of a weight is rounded to the
///    type of the computation before it moves, and widened, or added to the sum, when it arrives;
///  - gradients and results are reduced completely before their first reader, or at the end.
/// `shardings` are those of the graph that was recomputed.
ShardedGraph insert_conversions(const Recomputed& recomputed, const plan::GraphShardings& shardings,
                                const plan::Plan& plan);

}  // namespace fourfold::compile
