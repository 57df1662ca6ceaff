#include "compile/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"

namespace fourfold::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::ValueId;

class Rewriter {
 public:
  Rewriter(const Graph& source, plan::Checkpointing checkpointing, const Repeats& repeats)
      : source_(source), checkpointing_(checkpointing) {
    result_.graph = source;
    result_.graph.nodes.clear();
    for (std::size_t i = 0; i < source.values.size(); ++i) result_.origin.emplace_back(i);
    find_producers();
    find_repeated(repeats);
  }

  Recomputed run() {
    for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
      Node node = source_.nodes[i];
      if (node.phase != Phase::forward)
        for (ValueId& read : node.reads) read = again(read);
      add(std::move(node), i);
    }
    return std::move(result_);
  }

 private:
  /// Stages that share a mesh do not share a segment: the later one is done with its backward task
  /// when the earlier one repeats what it needs.
  std::optional<std::pair<std::size_t, std::int64_t>> segment(const Node& node) const {
    if (!node.layer) return std::nullopt;
    return std::pair(node.stage, checkpointing_.segment_of(*node.layer));
  }

  /// Forward producers of values, and which values leave their segment in the forward pass.
  void find_producers() {
    producer_.resize(source_.values.size());
    leaves_segment_.assign(source_.values.size(), false);
    for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
      const Node& node = source_.nodes[i];
      if (node.phase != Phase::forward) continue;
      for (const ValueId id : node.outputs) producer_[id.index()] = i;
      for (const ValueId id : node.reads) {
        const auto maker = producer_[id.index()];
        if (maker && segment(source_.nodes[*maker]) != segment(node))
          leaves_segment_[id.index()] = true;
      }
    }
  }

  /// Values of rows that are computed again for certain readers alone.
  void find_repeated(const Repeats& repeats) {
    const auto has = [](const std::vector<std::string>& rows, const Node& node) {
      return std::ranges::find(rows, op::name(node.op)) != rows.end();
    };
    is_repeated_.assign(source_.values.size(), false);
    for (std::size_t i = 0; i < source_.values.size(); ++i)
      if (producer_[i]) is_repeated_[i] = has(repeats.rows, source_.nodes[*producer_[i]]);
    for (const Node& node : source_.nodes)
      if (node.phase != Phase::forward && !has(repeats.readers, node))
        for (const ValueId id : node.reads) is_repeated_[id.index()] = false;
  }

  bool is_recomputed(ValueId id) const {
    const auto maker = producer_[id.index()];
    if (maker && is_repeated_[id.index()]) return true;
    if (!maker || leaves_segment_[id.index()]) return false;
    const Node& node = source_.nodes[*maker];
    const bool is_product = op::work_class(node.op) == op::WorkClass::product;
    return node.layer && checkpointing_.repeats(*node.layer) &&
           !(checkpointing_.keeps_products_of(*node.layer) && is_product);
  }

  /// The value that a backward node should read instead of `id`: its repetition, made here if need
  /// be.
  ValueId again(ValueId id) {
    if (!is_recomputed(id)) return id;
    if (const auto place = copies_.find(id); place != copies_.end()) return place->second;
    Node node = source_.nodes[*producer_[id.index()]];
    for (ValueId& read : node.reads) read = again(read);
    node.phase = Phase::backward;
    for (ValueId& output : node.outputs) output = copy(output);
    add(std::move(node), *producer_[id.index()]);
    return copies_.at(id);
  }

  void add(Node node, std::size_t origin) {
    result_.graph.nodes.push_back(std::move(node));
    result_.node_origin.push_back(origin);
  }

  ValueId copy(ValueId id) {
    const ValueId copied(result_.graph.values.size());
    graph::Value value = source_.value(id);
    value.name = format("{}/again", value.name);
    result_.graph.values.push_back(std::move(value));
    result_.origin.push_back(id);
    copies_.emplace(id, copied);
    return copied;
  }

  const Graph& source_;
  plan::Checkpointing checkpointing_;
  Recomputed result_;
  std::vector<std::optional<std::size_t>> producer_;  // by value: its forward node
  std::vector<bool> leaves_segment_, is_repeated_;    // by value
  std::map<ValueId, ValueId> copies_;
};

}  // namespace

Recomputed recompute(graph::Graph graph, plan::Checkpointing checkpointing,
                     const Repeats& repeats) {
  if (!checkpointing.repeats_any() && repeats.rows.empty()) {
    Recomputed result{std::move(graph), {}, {}};
    for (std::size_t i = 0; i < result.graph.values.size(); ++i) result.origin.emplace_back(i);
    for (std::size_t i = 0; i < result.graph.nodes.size(); ++i) result.node_origin.push_back(i);
    return result;
  }
  Recomputed result = Rewriter(graph, checkpointing, repeats).run();
  graph::check(result.graph);
  return result;
}

}  // namespace fourfold::compile
