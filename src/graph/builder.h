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
  explicit Builder(std::string graph_name) { graph_.name = std::move(graph_name); }

  /// A parameter with its start; repeated calls with one name give the same value.
  ValueId parameter(const std::string& name, const Shape& shape, const op::Op& init);
  /// Any other value that no node of the model makes; repeated calls with one name give the same
  /// value.
  ValueId given(const std::string& name, const Shape& shape, op::Element element, ValueRole role,
                std::optional<op::Op> init = std::nullopt);
  ValueId tokens(const Shape& shape) {
    return given("tokens", shape, op::Element::i32, ValueRole::tokens);
  }
  ValueId labels(const Shape& shape) {
    return given("labels", shape, op::Element::i32, ValueRole::labels);
  }
  ValueId document_starts(const Shape& shape) {
    return given("document_starts", shape, op::Element::i32, ValueRole::document_starts);
  }
  /// A field of the step or result block, by its name in op/blocks.h.
  ValueId field(std::string_view name);

  /// Applies an op whose outputs are new activations named `name`, with the operand's name behind
  /// for all but the first: "ln1.y" gets "ln1.y.mean". Returns the outputs.
  std::vector<ValueId> apply(const op::Op& op, std::vector<ValueId> reads, const std::string& name);
  /// As apply, for ops with one output.
  ValueId apply_one(const op::Op& op, std::vector<ValueId> reads, const std::string& name);
  /// Applies an op to outputs that exist already (persistent values, sums, block fields).
  void apply_to(const op::Op& op, std::vector<ValueId> reads, std::vector<ValueId> outputs);

  void set_phase(Phase phase) { phase_ = phase; }
  void set_block(std::optional<std::int64_t> block) { block_ = block; }
  void set_role(ValueId id, ValueRole role) { graph_.values[id.index()].role = role; }

  void set_gradient_of(ValueId id, ValueId value) { graph_.values[id.index()].gradient_of = value; }

  const Graph& graph() const { return graph_; }
  /// Checks the graph and gives it away.
  Graph take();

 private:
  ValueId add(Value value);

  Graph graph_;
  std::unordered_map<std::string, ValueId> by_name_;
  Phase phase_ = Phase::forward;
  std::optional<std::int64_t> block_;
};

}  // namespace fourfold::graph
