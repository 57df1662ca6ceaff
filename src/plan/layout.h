// What a strategy or a search says: how parameters lie, where activations are kept otherwise than
// ops give them, and how single ops are cut. A value; everything else follows from the ops' rules
// (derive_shardings).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "op/sharding.h"
#include "plan/infeasible.h"
#include "plan/plan_spec.h"

namespace fourfold::plan {

struct ParameterLayout {
  op::Sharding rest;     // between steps
  op::Sharding moments;  // its optimizer state: as rest, or cut further
  /// How the ops that have chosen it see it; none of the others, which follow what they meet.
  std::optional<op::Sharding> use;
  bool is_received = false;  // comes from the mesh that owns it, whole or as it is used
  bool operator==(const ParameterLayout&) const = default;
};

/// How an activation, or a gradient, is kept, told as changes to what its op gives: partial sums
/// are reduced, but where they are to stay. As one layout serves graphs of other batches, a change
/// that does not divide is left out.
struct Keep {
  /// The axis cuts the first of these dims that it divides.
  struct Wish {
    AxisId axis;
    std::vector<std::size_t> dims;
    bool of_fed_dim = false;  // only where ranks divide what is fed
    bool operator==(const Wish&) const = default;
  };
  std::vector<std::size_t> whole;  // dims that lose all their cuts before
  std::vector<Wish> wishes;
  bool sums_stay = false;
  bool operator==(const Keep&) const = default;
};

/// Which axes cut the factors of an op's rule, outermost first; those that are not named are whole.
using FactorAxes = std::map<char, std::vector<AxisId>>;

struct Layout {
  std::vector<AxisId> samples;  // which cut the first dim of what is fed, outermost first
  /// By name, which means one tensor in all graphs of a model.
  std::map<std::string, ParameterLayout> parameters;
  std::map<std::string, Keep> activations;
  /// What is chosen for ops, by their names (names_of_ops); the others follow what they read. No op
  /// that sees state as it lies (an update, a digest) has a choice.
  std::map<std::string, FactorAxes> ops;
  bool operator==(const Layout&) const = default;
};

/// By node: the name of its first output; with "#2" where it is the second one that adds to it.
std::vector<std::string> names_of_ops(const graph::Graph& graph);

/// True for an op that sees state as it lies (it starts, updates or digests it): it has no choice.
bool sees_state(const graph::Graph& graph, const graph::Node& node);
/// The factors of a node's rule, or of its cut form, that may be cut, and their sizes.
op::FactorSizes factor_sizes(const graph::Graph& graph, const graph::Node& node);

/// Options of the strategies.
struct LayoutOptions {
  bool shard_sequence = false;  // cut the second dim of what is fed on x between layers
  bool shard_states = false;    // cut optimizer state on data
  /// How parameters lie between steps that are not the strategy's to choose, by name.
  std::map<std::string, op::Sharding> pinned = {};
};

/// True if ranks have more rows of a tensor than there are: its first dim is cut into blocks of a
/// size of their own.
inline bool is_padded(const op::Sharding& sharding) {
  return !sharding.dims.empty() && !sharding.dims[0].empty() &&
         sharding.dims[0].back().stride.has_value();
}

/// Cuts by those axes that have more than one rank, outermost first.
op::Cuts cuts_by(const Mesh& mesh, std::span<const AxisId> axes);
/// The same of a dim of a size; where the axes do not divide it, each cut states its stride.
op::Cuts cuts_of_dim(std::int64_t size, std::span<const AxisId> axes, const Mesh& mesh);

/// True if the axis cuts a dim.
bool cuts_axis(const op::Sharding& sharding, AxisId axis);

}  // namespace fourfold::plan
