// A model as values and the ops that make them: forward, backward and update. Logical shapes over
// all ranks; no sharding (plan/), no addresses (program/), no element type of the computation.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/mesh.h"
#include "op/program_kind.h"
#include "op/table.h"

namespace fourfold::graph {

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

enum class ValueRole : std::uint8_t {
  parameter,
  moment,    // optimizer state of a parameter
  average,   // of a parameter over the steps, used in its place once it is trained; of losses
  rounded,   // a parameter in the type of the computation: compile/ adds it, no graph has it
  counter,   // number of updates
  cache,     // keys and values of earlier tokens
  input,     // fed from the host, samples first: the other dims are those of a sample
  received,  // made on another mesh; a weight if it has a start
  step,      // a field of the step block
  result,    // a field of the result block; a sum over its producers
  activation,
  gradient,  // what a parameter, or other state, learns from: the sum of what its producers give
             // it, over all micro-batches
  output     // read by the host afterwards
};

struct Value {
  std::string
      name;  // unique in the graph; the same name means the same tensor in all graphs of a model
  Shape shape;
  op::Element element = op::Element::compute;  // of parameters, moments, gradients: accumulate
  ValueRole role = ValueRole::activation;
  /// How a persistent value starts; parameters, moments, counters and caches have one, and weights
  /// that another mesh sends.
  std::optional<op::Op> init;
  /// The value whose gradient, or a term of it, an activation of the backward phase is; the
  /// parameter or other state of a gradient.
  std::optional<ValueId> gradient_of = std::nullopt;
  /// For reports: the part of the model that makes the value, and the one that makes its gradient.
  /// One word each, or nothing.
  std::string label = {}, gradient_label = {};
  bool operator==(const Value&) const = default;
};

/// Which part of a step a node belongs to. Forward and backward run for every micro-batch, update
/// once.
enum class Phase : std::uint8_t { forward, backward, update };
std::string_view to_string(Phase phase);

struct Node {
  op::Op op;
  std::vector<ValueId> reads;    // in the order of op::operands
  std::vector<ValueId> outputs;  // writes and updates
  Phase phase = Phase::forward;
  std::optional<std::int64_t> layer;  // of the model: the unit of activation checkpointing
  std::string label = {};             // of what its cut form makes in between
  std::size_t stage = 0;              // of the pipeline that the model is cut into
  bool operator==(const Node&) const = default;
};

/// Nodes stand in an order in which every read value was made before.
struct Graph {
  op::ProgramKind kind = op::ProgramKind::train;
  MeshId mesh;  // whose ranks carry it out
  std::vector<Value> values;
  std::vector<Node> nodes;
  /// All ranks are fed the same samples (a text that is written); else they divide them.
  bool feeds_are_whole = false;
  bool operator==(const Graph&) const = default;

  const Value& value(ValueId id) const { return values[id.index()]; }
  std::optional<ValueId> find(std::string_view value_name) const;
  std::vector<Shape> shapes(std::span<const ValueId> ids) const;
};

/// True if a value keeps its content between programs.
bool is_persistent(ValueRole role);
/// What the moving average of a parameter is called.
std::string name_of_average(std::string_view parameter);
/// True for a parameter and for its moving average: products read either as their weight.
bool is_weight(const Value& value);
/// True if a value is the sum of all its producers, so that later ones add to it.
bool is_sum(ValueRole role);

/// Floating-point operations of a node on all ranks together.
double flops_of(const Graph& graph, const Node& node);

/// One line a node: "backward  contract  dy, w -> dx   [12, 64, 128]  transpose_b true". Stable,
/// for tests and people.
std::string to_text(const Graph& graph);

/// Throws InternalError unless shapes follow the ops' rules, reads come after their producers, only
/// sums have several producers, and element types are those of the ops: but a parameter, kept in
/// the type of sums, may be read in that of the computation, and its gradient made by any product.
void check(const Graph& graph);

/// All graphs of a model over persistent values that are common to those of one mesh.
struct ModelGraphs {
  std::vector<Graph> graphs;
  std::int64_t num_layers = 0;
  bool operator==(const ModelGraphs&) const = default;

  const Graph& at(op::ProgramKind kind, MeshId mesh = {}) const;
};

}  // namespace fourfold::graph
