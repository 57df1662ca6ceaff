// Makes graphs: adds values and nodes, keeps names unique and shapes right. The graph is const once
// taken.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace fourfold::graph {

class Builder {
 public:
  explicit Builder(op::ProgramKind kind) { graph_.kind = kind; }

  /// A parameter with its start; repeated calls with one name give the same value.
  ValueId parameter(const std::string& name, const Shape& shape, const op::Op& init);
  /// Any other value that no node of the model makes; repeated calls with one name give the same
  /// value.
  ValueId given(const std::string& name, const Shape& shape, op::Element element, ValueRole role,
                std::optional<op::Op> init = std::nullopt);
  /// Declares an input: what the host feeds, `shape` being samples first.
  ValueId input(const std::string& name, const Shape& shape, op::Element element) {
    return given(name, shape, element, ValueRole::input);
  }
  /// A field of the step or result block, by its name in op/blocks.h.
  ValueId field(std::string_view name);

  /// Applies an op whose outputs are new activations named `name`, with the operand's name added
  /// for all but the first: "ln1.y" gets "ln1.y.mean". Returns the outputs.
  std::vector<ValueId> apply(const op::Op& op, std::vector<ValueId> reads, const std::string& name);
  /// As apply, for ops with one output.
  ValueId apply_one(const op::Op& op, std::vector<ValueId> reads, const std::string& name);
  /// Applies an op to outputs that exist already (persistent values, sums, block fields).
  void apply_to(const op::Op& op, std::vector<ValueId> reads, std::vector<ValueId> outputs);

  void set_feeds_whole() { graph_.feeds_are_whole = true; }
  void set_phase(Phase phase) { phase_ = phase; }
  void set_layer(std::optional<std::int64_t> layer) { layer_ = layer; }
  void set_stage(std::size_t stage) { stage_ = stage; }
  /// The label of the nodes and values that are made from here on, and of their gradients.
  void set_label(std::string_view label) { label_ = label; }
  void set_labels(ValueId id, std::string_view label, std::string_view of_gradient) {
    graph_.values[id.index()].label = label;
    graph_.values[id.index()].gradient_label = of_gradient;
  }
  void set_role(ValueId id, ValueRole role) { graph_.values[id.index()].role = role; }

  void set_gradient_of(ValueId id, ValueId value) { graph_.values[id.index()].gradient_of = value; }

  const Graph& graph() const { return graph_; }
  /// The value of that name, in a time that does not grow with the graph.
  std::optional<ValueId> find(const std::string& name) const;
  /// Checks the graph and gives it away.
  Graph take();

 private:
  ValueId add(Value value);

  Graph graph_;
  std::unordered_map<std::string, ValueId> by_name_;
  Phase phase_ = Phase::forward;
  std::optional<std::int64_t> layer_;
  std::size_t stage_ = 0;
  std::string label_;
};

}  // namespace fourfold::graph
