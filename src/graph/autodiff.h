// Reverse-mode differentiation: adds to a forward graph the nodes that give every parameter its
// gradient.
#pragma once

#include "graph/builder.h"

namespace fourfold::graph {

/// Adds the backward nodes of everything that leads to `cross_entropy`, whose gradient is seeded
/// with the constant `loss_scale` for every token. The gradient of parameter P becomes the value
/// "gradient/P" of role `gradient`, a sum over all of P's uses. An activation used more than once
/// gets its contributions added. Nodes inherit the block of the node they differentiate. Throws
/// InternalError for an op without gradient.
void differentiate(Builder& builder, NodeId cross_entropy, double loss_scale);

/// Name of a parameter's gradient.
std::string gradient_name(std::string_view parameter);

}  // namespace fourfold::graph
