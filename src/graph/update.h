// What is not the model: the optimizer's update, the start of all state, and the digest of it, as
// nodes.
#pragma once

#include <span>

#include "graph/builder.h"
#include "graph/optimizer_spec.h"

namespace fourfold::graph {

/// Adds the update: global gradient norm and clipping, the check that all state is finite, the
/// optimizer for every parameter of the graph that has a gradient, the update counter. All ranks
/// vote on whether it is applied, and their hosts on what happens after the step. `nominal_count`
/// is what the loss scale of the gradient assumed.
void add_update(Builder& builder, const OptimizerSpec& spec, std::int64_t nominal_count);

/// Adds a moving average of every parameter, which begins as it does, after the update: "average/w"
/// of w.
void add_averages(Builder& builder, double decay);

/// Where "train" keeps moving averages of parameters, "evaluate" reads them in the place of these:
/// what is judged is what is saved as the model.
void read_averages(ModelGraphs& model);

/// The graph "init": every persistent value of `graphs` gets its start.
Graph init_graph(std::span<const Graph> graphs);

/// The graph "digest": output "digest/NAME" for every parameter, moment, average and counter of
/// `graphs`.
Graph digest_graph(std::span<const Graph> graphs);

}  // namespace fourfold::graph
