// What the user's pins mean for the parameters of a model on a mesh. Not how they are written
// (pin_spec.h), nor what follows from them (axonn.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/mesh.h"
#include "graph/graph.h"
#include "op/sharding.h"
#include "plan/infeasible.h"
#include "plan/pin_spec.h"

namespace fourfold::plan {

/// By name of a parameter: how it lies between steps.
using PinnedShardings = std::map<std::string, op::Sharding>;

/// The pins that are of some weight of a training graph: its parameters, and those that another
/// mesh sends.
std::vector<Pin> pins_of(const graph::Graph& train, std::span<const Pin> pins);
/// A problem for each pin that is of none.
std::vector<Problem> unused_pins(const graph::Graph& train, std::span<const Pin> pins);

/// True if the pins say the same of every layer. A weight is of the layer that reads it first.
bool treat_layers_alike(const graph::Graph& train, std::span<const Pin> pins);

/// The shardings that pins say for the weights of a training graph. Infeasible where a pin has
/// other dims than a weight, axes that do not divide one, where two pins of one weight differ, or
/// where a pin is of no weight at all.
std::variant<PinnedShardings, Infeasible> pinned_shardings(const graph::Graph& train,
                                                           const Mesh& mesh,
                                                           std::span<const Pin> pins);

}  // namespace fourfold::plan
