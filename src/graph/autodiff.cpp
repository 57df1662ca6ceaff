#include "graph/autodiff.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "graph/gradients.h"

namespace fourfold::graph {
namespace {

class Tape final : public Pullback {
 public:
  explicit Tape(Builder& builder)
      : builder_(builder), contributions_(builder.graph().values.size()) {}

  void walk(ValueId root, ValueId root_gradient) {
    // The nodes up to that of the root; the builder's list grows while they are walked.
    const std::vector<Node> forward = nodes_up_to(root);
    mark_dependants(forward);
    mark_gradient(root_gradient, root);
    contributions_[root.index()].push_back(root_gradient);
    for (std::size_t i = forward.size(); i-- > 0;) {
      node_ = &forward[i];
      if (contributions_[node_->outputs[0].index()].empty()) continue;
      builder_.set_layer(node_->layer);
      builder_.set_label(node_->label);
      pull_back(node_->op, *this);
    }
    builder_.set_layer(std::nullopt);
  }

  const Node& node() const override { return *node_; }
  const Shape& shape(ValueId id) const override { return builder_.graph().value(id).shape; }
  bool is_wide(ValueId id) const override {
    return builder_.graph().value(id).element == op::Element::accumulate;
  }
  bool is_wanted(std::size_t index) const override {
    return needs_gradient_[node_->reads[index].index()];
  }

  ValueId output_gradient(std::size_t output) override {
    auto& list = contributions_[node_->outputs[output].index()];
    require(!list.empty(), "a node is walked only when its output has a gradient");
    // In the order in which they were made: what one stage of a pipeline makes, it can add up.
    for (std::size_t i = 1; i < list.size(); ++i) {
      list[0] = builder_.apply_one(op::Add{is_wide(list[i])}, {list[0], list[i]},
                                   fresh_name(node_->outputs[output], "sum"));
      mark_gradient(list[0], node_->outputs[output]);
    }
    list.resize(1);
    return list[0];
  }

  ValueId intermediate(const op::Op& op, std::vector<ValueId> reads,
                       std::string_view suffix) override {
    return builder_.apply_one(op, std::move(reads), fresh_name(node_->outputs[0], suffix));
  }

  void give(std::size_t index, const op::Op& op, std::vector<ValueId> reads) override {
    give_all({index}, op, std::move(reads));
  }

  void give_all(std::vector<std::size_t> indices, const op::Op& op,
                std::vector<ValueId> reads) override {
    std::vector<ValueId> outputs;
    bool wanted = false;
    const std::vector<Shape> shapes = op::outputs(op, builder_.graph().shapes(reads));
    const op::Operands operands = op::operands(op);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const ValueId read = node_->reads[indices[i]];
      wanted = wanted || is_wanted(indices[i]);
      outputs.push_back(target(read, shapes[i], operands[reads.size() + i].element));
    }
    if (wanted) builder_.apply_to(op, std::move(reads), std::move(outputs));
  }

  void pass(std::size_t index, ValueId gradient) override {
    const ValueId read = node_->reads[index];
    require(builder_.graph().value(read).role != ValueRole::parameter,
            "a parameter's gradient is made by an op");
    if (needs_gradient_[read.index()]) contributions_[read.index()].push_back(gradient);
  }

 private:
  std::vector<Node> nodes_up_to(ValueId value) const {
    const std::vector<Node>& nodes = builder_.graph().nodes;
    const auto makes_it = [&](const Node& node) {
      return std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end();
    };
    const auto maker = std::find_if(nodes.begin(), nodes.end(), makes_it);
    require(maker != nodes.end(), "a node makes the value that is differentiated");
    return {nodes.begin(), maker + 1};
  }

  void mark_dependants(const std::vector<Node>& forward) {
    needs_gradient_.assign(builder_.graph().values.size(), false);
    for (std::size_t i = 0; i < needs_gradient_.size(); ++i)
      needs_gradient_[i] = builder_.graph().values[i].role == ValueRole::parameter;
    for (const Node& node : forward) {
      bool any = false;
      for (const ValueId id : node.reads) any = any || needs_gradient_[id.index()];
      if (!any) continue;
      for (const ValueId id : node.outputs) needs_gradient_[id.index()] = true;
    }
  }

  /// Where a gradient of `read` goes: the parameter's sum, or a new value of that element type.
  ValueId target(ValueId read, const Shape& gradient_shape, op::Element element) {
    const Value value = builder_.graph().value(read);
    require(value.shape == gradient_shape,
            [&] { return format("the gradient of {} has its shape", value.name); });
    if (value.role == ValueRole::parameter) {
      const ValueId sum = builder_.given(gradient_name(value.name), value.shape,
                                         op::Element::accumulate, ValueRole::gradient);
      mark_gradient(sum, read);
      return sum;
    }
    const ValueId id =
        builder_.given(fresh_name(read, "grad"), value.shape, element, ValueRole::activation);
    mark_gradient(id, read);
    if (needs_gradient_[read.index()]) contributions_[read.index()].push_back(id);
    return id;
  }

  void mark_gradient(ValueId gradient, ValueId of) {
    const std::string label = builder_.graph().value(of).gradient_label;
    builder_.set_gradient_of(gradient, of);
    builder_.set_labels(gradient, label, label);
  }

  /// "x/grad", then "x/grad2", ...
  std::string fresh_name(ValueId value, std::string_view suffix) {
    const std::string base = format("{}/{}", builder_.graph().value(value).name, suffix);
    std::string name = base;
    for (int i = 2; builder_.find(name); ++i) name = format("{}{}", base, i);
    return name;
  }

  Builder& builder_;
  const Node* node_ = nullptr;
  std::vector<std::vector<ValueId>> contributions_;  // by value
  std::vector<bool> needs_gradient_;                 // by value: depends on a parameter
};

}  // namespace

std::string gradient_name(std::string_view parameter) {
  return format("gradient/{}", parameter);
}

void differentiate(Builder& builder, ValueId root, ValueId root_gradient) {
  builder.set_phase(Phase::backward);
  Tape(builder).walk(root, root_gradient);
}

}  // namespace fourfold::graph
