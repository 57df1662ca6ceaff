#include "graph/cut_forms.h"

#include <map>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::graph {
namespace {

class Rewriter {
 public:
  Rewriter(const Graph& source,
           const std::function<std::optional<std::int64_t>(std::size_t)>& chunks_of)
      : source_(source) {
    result_.graph.kind = source.kind;
    result_.graph.mesh = source.mesh;
    result_.graph.feeds_are_whole = source.feeds_are_whole;
    for (std::size_t i = 0; i < source.nodes.size(); ++i)
      if (const auto chunks = chunks_of(i)) {
        const Node& node = source.nodes[i];
        forms_[i] = op::cut_form(node.op, source.shapes(node.reads), *chunks).value();
        before_[node.outputs[0]] = i;
      }
  }

  WithCutForms run() {
    add_values();
    for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
      const auto form = forms_.find(i);
      if (form == forms_.end())
        add(renumbered(source_.nodes[i]), i);
      else
        for (const op::Piece& row : form->second.rows) add(node_of(i, row), i);
    }
    return std::move(result_);
  }

 private:
  void add_values() {
    for (std::size_t i = 0; i < source_.values.size(); ++i) {
      if (const auto node = before_.find(ValueId(i)); node != before_.end())
        add_between(node->second);
      place_.push_back(ValueId(result_.graph.values.size()));
      result_.graph.values.push_back(source_.values[i]);
      result_.value_origin.emplace_back(ValueId(i));
    }
    for (Value& value : result_.graph.values)
      if (value.gradient_of) value.gradient_of = place_[value.gradient_of->index()];
  }

  /// The values between the rows of a node's cut form, of shapes that follow from those of its own
  /// operands.
  void add_between(std::size_t index) {
    const Node& node = source_.nodes[index];
    const op::CutForm& form = forms_.at(index);
    const std::string prefix = prefix_of(node);
    std::vector<Shape> shapes = source_.shapes(node.reads);
    for (const Shape& shape : source_.shapes(node.outputs)) shapes.push_back(shape);
    const std::size_t own = shapes.size();
    for (const op::Piece& row : form.rows) {
      const op::Operands operands = op::operands(row.op);
      std::vector<Shape> reads;
      for (std::size_t i = 0; i < operands.size(); ++i)
        if (operands[i].role == op::Role::read) reads.push_back(shapes[row.operands[i]]);
      const std::vector<Shape> outputs = op::outputs(row.op, reads);
      for (std::size_t i = reads.size(); i < operands.size(); ++i) {
        if (row.operands[i] < own) continue;
        require(row.operands[i] == shapes.size(), "values of a cut form are made in their order");
        shapes.push_back(outputs[i - reads.size()]);
        between_[index].emplace_back(result_.graph.values.size());
        result_.graph.values.push_back({prefix + form.between[row.operands[i] - own], shapes.back(),
                                        operands[i].element, ValueRole::activation, std::nullopt,
                                        std::nullopt, node.label, node.label});
        result_.value_origin.emplace_back(std::nullopt);
      }
    }
  }

  std::string prefix_of(const Node& node) const {
    for (const ValueId id : node.reads)
      if (const auto value = source_.value(id).gradient_of) return source_.value(*value).name + "/";
    return source_.value(node.outputs[0]).name + ".";
  }

  Node renumbered(Node node) const {
    for (ValueId& id : node.reads) id = place_[id.index()];
    for (ValueId& id : node.outputs) id = place_[id.index()];
    return node;
  }

  Node node_of(std::size_t index, const op::Piece& row) const {
    const Node& whole = source_.nodes[index];
    const std::size_t reads = whole.reads.size(), own = reads + whole.outputs.size();
    const op::Operands operands = op::operands(row.op);
    Node node{row.op, {}, {}, whole.phase, whole.layer, whole.label, whole.stage};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::size_t operand = row.operands[i];
      const ValueId id = operand >= own    ? between_.at(index)[operand - own]
                         : operand < reads ? place_[whole.reads[operand].index()]
                                           : place_[whole.outputs[operand - reads].index()];
      (operands[i].role == op::Role::read ? node.reads : node.outputs).push_back(id);
    }
    return node;
  }

  void add(Node node, std::size_t origin) {
    result_.graph.nodes.push_back(std::move(node));
    result_.node_origin.push_back(origin);
  }

  const Graph& source_;
  std::map<std::size_t, op::CutForm> forms_;             // by node
  std::map<ValueId, std::size_t> before_;                // by first output: its node
  std::map<std::size_t, std::vector<ValueId>> between_;  // by node
  std::vector<ValueId> place_;                           // by value of the source: its new number
  WithCutForms result_;
};

}  // namespace

WithCutForms with_cut_forms(
    const Graph& graph,
    const std::function<std::optional<std::int64_t>(std::size_t node)>& chunks_of) {
  WithCutForms result = Rewriter(graph, chunks_of).run();
  check(result.graph);
  return result;
}

}  // namespace fourfold::graph
