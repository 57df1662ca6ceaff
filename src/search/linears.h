// The linears of any training graph, found by the ops' factor rules, and what they send by AxoNN's
// equations 4 to 8: products, convolutions and all else that contracts a weight with an activation.
// Not everything that a plan sends (demand.h): look-ups, norms and losses are no linears.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "search/axonn_forms.h"

namespace fourfold::search {

/// One op of the forward pass that contracts a weight with an activation, on a mesh. Sizes are
/// those that one rank has in a micro-batch, axes those that cut the factors of the rule.
struct LinearOnMesh {
  std::string weight;          // its name
  graph::ValueId input;        // what it contracts the weight with
  Linear sizes;                // over all ranks and one micro-batch; m: samples, tokens, pixels
  double weight_elements = 0;  // in use
  double input_elements = 0, output_elements = 0;
  std::vector<AxisId> contracted;  // cut k: the output is partial there (y of AxoNN)
  std::vector<AxisId> kept;        // cut n: the input's gradient is partial there (x); those
                                   // that cut the input where it is kept stand last
  std::vector<AxisId> at_rest;     // cut the weight between steps alone (z)
  std::vector<AxisId> replicas;    // cut m but not the weight at rest (data)
  bool has_input_gradient = true;  // not where what is fed is contracted
};

/// The linears of a training graph, which lie as the plan has it.
std::vector<LinearOnMesh> linears_of(const graph::Graph& train, const plan::Plan& plan);

/// Equations 4 to 8 of all of them in a step of so many micro-batches, in elements by axis of the
/// mesh. Weights are gathered and their gradients reduce-scattered in each micro-batch, and
/// all-reduced over replicas once.
std::vector<double> axonn_elements(const std::vector<LinearOnMesh>& linears, const Mesh& mesh,
                                   double micros);

}  // namespace fourfold::search
