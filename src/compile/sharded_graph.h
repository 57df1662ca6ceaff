// A graph with every conversion between states written out: what insert_conversions makes,
// choose_blocks refines and lower unrolls. Not a program yet: no micro-batches, no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compile/conversion_path.h"
#include "graph/graph.h"
#include "program/program.h"

namespace fourfold::compile {

using graph::ValueId;

struct ShardedValue {
  std::string name;
  Shape shape;  // logical
  op::Element element = op::Element::compute;
  graph::ValueRole role = graph::ValueRole::activation;
  op::Sharding sharding;  // cuts alone: what is partial follows from the steps
  std::optional<program::Blocked> blocked;
  /// This rank's block of another value's memory, along that value's outermost dim.
  std::optional<ValueId> window_of;
  /// A sum over several producers, new in each micro-batch (gradients and results last longer).
  bool is_micro_sum = false;
  /// The rounded copy of a weight, which stays as it is until the update: made once in a step.
  bool is_rounded_weight = false;
  /// What a weight is converted to, once in a step, for all of its micro-batches.
  bool is_converted_once = false;
  std::string label = {};
};

/// What a conversion serves. Collectives of different purposes do not wait for one another: the
/// gather of the next weights need not stand in line with the last gradients.
enum class Purpose : std::uint8_t { activations, weights, gradients };

/// A conversion of a value; all_reduce works in place (from == to). A copy with from == to is made
/// only where it becomes the sum.
struct Move {
  Conversion conversion;
  ValueId from, to;
  /// What arrives in `to` is added to this gradient, or becomes it in the first micro-batch. The
  /// gradient may be of a wider type: what moved was rounded.
  std::optional<ValueId> sum;
  graph::Phase phase = graph::Phase::forward;
  Purpose purpose = Purpose::activations;
  std::size_t stage = 0;
};

/// A value goes to another mesh, as it lies here, or comes from it.
struct Handover {
  std::size_t edge = 0;  // of the plan
  bool sends = false;
  ValueId value;
  graph::Phase phase = graph::Phase::forward;
  std::size_t stage = 0;
};

/// "all_reduce", as texts of passes and of the planner have it.
std::string_view to_string(MoveKind kind);

using Step = std::variant<graph::Node, Move, Handover>;

struct ShardedGraph {
  op::ProgramKind kind = op::ProgramKind::train;
  MeshId mesh;  // whose ranks carry it out
  std::vector<ShardedValue> values;
  std::vector<Step> steps;
  bool rounds_gradients = false;  // for collectives: as program::Program::reduce says

  const ShardedValue& value(ValueId id) const { return values[id.index()]; }
};

}  // namespace fourfold::compile
