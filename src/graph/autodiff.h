// Reverse-mode differentiation: adds to a forward graph the nodes that give every parameter its
// gradient.
#pragma once

#include "graph/builder.h"

namespace fourfold::graph {

/// Adds the backward nodes of everything that leads to `root`, an activation whose gradient is the
/// value `root_gradient`. The gradient of parameter P becomes the value "gradient/P" of role
/// `gradient`, a sum over all of P's uses. An activation used more than once gets its contributions
/// added. Gradients of activations say so in `gradient_of`. Nodes inherit the layer of the node
/// they differentiate. Throws InternalError for an op without gradient.
void differentiate(Builder& builder, ValueId root, ValueId root_gradient);

/// Name of a parameter's gradient.
std::string gradient_name(std::string_view parameter);

}  // namespace fourfold::graph
