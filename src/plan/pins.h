// What the user's pins mean for the parameters and activations of a model on a mesh. Not how they
// are written (pin_spec.h), nor what follows from them (axonn.h, derive_shardings.h).
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
#include "plan/layout.h"
#include "plan/pin_spec.h"

namespace fourfold::plan {

/// By name.
struct PinnedShardings {
  std::map<std::string, op::Sharding> weights;      // how they lie between steps
  std::map<std::string, op::Sharding> activations;  // how they are kept
  std::map<std::string, Pin> never_whole;           // of both, and who says it
  bool operator==(const PinnedShardings&) const = default;

  bool has(const std::string& name) const {
    return weights.contains(name) || activations.contains(name) || never_whole.contains(name);
  }
};

/// The pins that are of something in a training graph. A pattern that is of some weight, a
/// parameter or one that another mesh sends, is of weights alone; any other is of activations.
std::vector<Pin> pins_of(const graph::Graph& train, std::span<const Pin> pins);
/// A problem for each pin that is of nothing.
std::vector<Problem> unused_pins(const graph::Graph& train, std::span<const Pin> pins);

/// True if the pins say the same of every layer. A value is of the layer that reads or makes it
/// first.
bool treat_layers_alike(const graph::Graph& train, std::span<const Pin> pins);

/// What pins say of a training graph. Infeasible where a pin has other dims than a tensor, axes
/// that do not divide one, where two pins of one tensor differ, or where a pin is of nothing.
std::variant<PinnedShardings, Infeasible> pinned_shardings(const graph::Graph& train,
                                                           const Mesh& mesh,
                                                           std::span<const Pin> pins);

/// Keeps a value of a rank exactly so, whatever its op gives.
Keep keep_as(const op::Sharding& sharding, std::size_t rank);

/// A problem for each tensor that is whole on every rank and never ought to be. `activations`: the
/// shardings of the graph's values; without them only weights are looked at.
std::vector<Problem> left_whole(const graph::Graph& train, const PinnedShardings& pinned,
                                const Layout& layout, std::span<const op::Sharding> values);

}  // namespace fourfold::plan
