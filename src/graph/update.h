// What is not the model: the optimizer's update, the start of all state, and the digest of it, as
// nodes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "graph/builder.h"
#include "graph/optimizer_spec.h"

namespace fourfold::graph {

/// What the nodes that update one parameter may read, and what they write.
struct UpdateValues {
  ValueId weight, gradient;      // the gradient is the sum of the step's, not scaled yet
  std::vector<ValueId> moments;  // in the order of Optimizer::moments
  ValueId lr, scale, applied;    // of the step
  ValueId updates;               // how many were applied before
  ValueId found;                 // a sum: each node that updates state adds what is not finite
  bool decays = false;           // whether weight decay applies to it
};

/// How parameters are updated. Each has moments of its shape, and nodes that compute from its
/// gradient what changes it: one for an optimizer that works element by element, several for one
/// that works on matrices, whose last updates the weight by a row of op/optimizers.h. What comes
/// between them are activations with names of their own.
struct Optimizer {
  std::function<std::vector<op::Moment>(const Value& parameter)> moments;
  std::function<void(Builder& builder, const UpdateValues& values)> add_nodes;
  double grad_clip = 0;  // largest global gradient norm; 0: no clipping
};

/// The one node a parameter of a row of op/optimizers.h.
Optimizer optimizer_of(const OptimizerSpec& spec);

/// Nodes of the graph from `begin` to before `end`: the update of a parameter.
struct UpdateNodes {
  ValueId weight;
  std::size_t begin = 0, end = 0;
};

/// Adds the update: global gradient norm and clipping, the check that all state is finite, the
/// optimizer for every parameter of the graph that has a gradient, the update counter. All ranks
/// vote on whether it is applied, and their hosts on what happens after the step. `nominal_count`
/// is what the loss scale of the gradient assumed. Returns the nodes of each parameter.
std::vector<UpdateNodes> add_update(Builder& builder, const Optimizer& optimizer,
                                    std::int64_t nominal_count);

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
