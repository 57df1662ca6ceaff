#include "compile/keep_rounded.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace fourfold::compile {
namespace {

using graph::Node;
using graph::ValueRole;

/// True if the update of a parameter writes another part of it than is kept: this rank's own rows.
bool updates_own_rows(const Node& node, const plan::NodeShardings& shardings,
                      const plan::GraphShardings& graph) {
  const std::size_t weight = op::operand_of(node.op, op::State::weight).value() - node.reads.size();
  return shardings.outputs[weight] != graph.values[node.outputs[weight].index()];
}

class Keeper {
 public:
  Keeper(ShardedGraph graph, const PersistentRegion& persistent) : result_(std::move(graph)) {
    for (const program::Buffer& buffer : persistent.buffers)
      if (buffer.role == program::BufferRole::rounded)
        kept_.emplace(program::rounded_name(buffer.name));
    steps_.swap(result_.steps);
  }

  ShardedGraph run() {
    if (kept_.empty()) {
      result_.steps.swap(steps_);
      return std::move(result_);
    }
    for (const Step& step : steps_)
      if (const auto* node = std::get_if<Node>(&step); node != nullptr) take_over_cast(*node);
    std::vector<ValueId> made;  // weights out of nothing
    for (Step& step : steps_) {
      auto* node = std::get_if<Node>(&step);
      if (node != nullptr && is_cast_of_weight(*node)) continue;
      if (node != nullptr && op::updates(node->op, op::State::weight)) {
        write_copy(*node);
      } else if (node != nullptr) {
        for (const ValueId id : node->outputs)
          if (is_kept(id)) made.push_back(id);
      }
      result_.steps.push_back(std::move(step));
    }
    for (const ValueId id : made)
      result_.steps.emplace_back(
          Node{op::rounding(), {id}, {copy_of(id)}, graph::Phase::forward, std::nullopt});
    return std::move(result_);
  }

 private:
  bool is_kept(ValueId id) const {
    const ShardedValue& value = result_.value(id);
    return value.role == ValueRole::parameter && kept_.contains(value.name);
  }

  bool is_cast_of_weight(const Node& node) const {
    return op::is_rounding(node.op) && is_kept(node.reads[0]);
  }

  /// What reads the copy that this program makes reads the one that is kept.
  void take_over_cast(const Node& node) {
    if (!is_cast_of_weight(node)) return;
    describe_copy(result_.values[node.outputs[0].index()], result_.value(node.reads[0]));
    copies_.emplace(node.reads[0], node.outputs[0]);
  }

  static void describe_copy(ShardedValue& copy, const ShardedValue& weight) {
    copy.name = program::name_of_rounded(weight.name);
    copy.role = ValueRole::rounded;
    copy.element = op::Element::compute;
    copy.is_rounded_weight = false;
  }

  ValueId copy_of(ValueId weight) {
    const auto [place, is_new] = copies_.try_emplace(weight, result_.values.size());
    if (is_new) {
      ShardedValue copy = result_.value(weight);
      describe_copy(copy, result_.value(weight));
      result_.values.push_back(std::move(copy));
    }
    return place->second;
  }

  void write_copy(Node& node) {
    const std::size_t reads = node.reads.size();
    const ValueId weight = node.outputs[op::operand_of(node.op, op::State::weight).value() - reads];
    if (!is_kept(weight)) return;
    node.op = op::with_rounded(node.op);
    const std::size_t place = op::operand_of(node.op, op::State::rounded).value() - reads;
    node.outputs.insert(node.outputs.begin() + static_cast<std::ptrdiff_t>(place), copy_of(weight));
  }

  ShardedGraph result_;
  std::vector<Step> steps_;
  std::set<std::string, std::less<>> kept_;  // names of weights
  std::map<ValueId, ValueId> copies_;        // by weight
};

}  // namespace

std::set<std::string> rounded_weights(const graph::ModelGraphs& model, const plan::Plan& plan,
                                      MeshId mesh) {
  std::set<std::string> rounded, in_rows;
  for (const graph::Graph& graph : model.graphs) {
    if (graph.mesh != mesh) continue;
    const plan::GraphShardings& shardings = plan.of(graph.kind, mesh);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (op::updates(node.op, op::State::weight)) {
        const std::size_t weight =
            op::operand_of(node.op, op::State::weight).value() - node.reads.size();
        if (updates_own_rows(node, shardings.nodes[n], shardings))
          in_rows.insert(graph.value(node.outputs[weight]).name);
      }
      if (op::takes_any_element(node.op)) continue;
      const op::Operands operands = op::operands(node.op);
      for (std::size_t i = 0; i < node.reads.size(); ++i) {
        const graph::Value& value = graph.value(node.reads[i]);
        if (value.role == ValueRole::parameter &&
            op::element_dtype(operands[i].element, plan.compute) !=
                op::element_dtype(value.element, plan.compute))
          rounded.insert(value.name);
      }
    }
  }
  for (const std::string& name : in_rows) rounded.erase(name);
  return rounded;
}

ShardedGraph keep_rounded(ShardedGraph graph, const PersistentRegion& persistent) {
  return Keeper(std::move(graph), persistent).run();
}

}  // namespace fourfold::compile
