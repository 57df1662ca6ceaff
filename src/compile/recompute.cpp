#include "compile/recompute.h"

#include <map>
#include <optional>

#include "base/format.h"

namespace fourfold::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::ValueId;

class Rewriter {
 public:
  Rewriter(const Graph& source, std::int64_t blocks_per_segment)
      : source_(source), length_(blocks_per_segment) {
    result_.graph = source;
    result_.graph.nodes.clear();
    for (std::size_t i = 0; i < source.values.size(); ++i) result_.origin.emplace_back(i);
    find_producers();
  }

  Recomputed run() {
    for (const Node& node : source_.nodes) {
      if (node.phase == Phase::forward) {
        result_.graph.nodes.push_back(node);
        continue;
      }
      Node rewritten = node;
      for (ValueId& read : rewritten.reads) read = again(read);
      result_.graph.nodes.push_back(std::move(rewritten));
    }
    return std::move(result_);
  }

 private:
  std::optional<std::int64_t> segment(const Node& node) const {
    if (!node.block) return std::nullopt;
    return *node.block / length_;
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

  bool is_recomputed(ValueId id) const {
    const auto maker = producer_[id.index()];
    return maker && source_.nodes[*maker].block && !leaves_segment_[id.index()];
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
    result_.graph.nodes.push_back(node);
    return copies_.at(id);
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
  std::int64_t length_;
  Recomputed result_;
  std::vector<std::optional<std::size_t>> producer_;  // by value: its forward node
  std::vector<bool> leaves_segment_;                  // by value
  std::map<ValueId, ValueId> copies_;
};

}  // namespace

Recomputed recompute(const graph::Graph& graph, plan::Checkpointing checkpointing) {
  if (checkpointing.blocks == 0) {
    Recomputed result{graph, {}};
    for (std::size_t i = 0; i < graph.values.size(); ++i) result.origin.emplace_back(i);
    return result;
  }
  Recomputed result = Rewriter(graph, checkpointing.blocks).run();
  graph::check(result.graph);
  return result;
}

}  // namespace fourfold::compile
