#include "model/text_graph.h"

#include <utility>

#include "base/error.h"
#include "model/training.h"

namespace fourfold::model {

using graph::Builder;
using graph::ValueId;

ValueId TextGraph::linear(ValueId x, const std::string& name, const Shape& weight,
                          const Linear& how) {
  const op::Contract product{.a_rows = 2, .b_rows = how.inner_dims};
  ValueId y = b_.apply_one(product, {x, normal(name + ".weight", weight, how.stddev)}, name);
  b_.set_labels(y, "linear", how.label_of_gradient);
  if (!how.has_bias) return y;
  Shape bias;
  for (auto dim = static_cast<std::size_t>(how.inner_dims); dim < weight.rank(); ++dim)
    bias.push_back(weight[dim]);
  const ValueId added = constant(name + ".bias", bias, 0);
  b_.set_labels(added, "bias", "bias");
  y = b_.apply_one(op::AddBias{}, {y, added}, name + ".biased");
  b_.set_labels(y, "linear", how.label_of_gradient);
  return y;
}

ValueId TextGraph::add_branch(ValueId x, ValueId branch, const std::string& name) {
  return is_wide(x) ? b_.apply_one(op::AddRounded{}, {x, branch}, name)
                    : b_.apply_one(op::Add{}, {x, branch}, name);
}

ValueId TextGraph::positions_of_logits(ValueId x) {
  if (!is_cached()) return x;
  return b_.apply_one(op::TakePosition{is_wide(x)}, {x, b_.field("step.index")}, "last");
}

ValueId TextGraph::head(ValueId x, ValueId embedding, bool is_tied, double stddev) {
  if (is_tied)
    return b_.apply_one(op::Contract{.a_rows = 2, .b_rows = 1, .transpose_b = true}, {x, embedding},
                        "logits");
  const Shape& table = b_.graph().value(embedding).shape;
  const ValueId weight = normal("head.weight", {table[1], table[0]}, stddev);
  return b_.apply_one(op::Contract{.a_rows = 2, .b_rows = 1}, {x, weight}, "logits");
}

namespace {

graph::Graph text_graph(const WriteLogits& write, TextUse use, std::int64_t length) {
  Builder builder(use == TextUse::prefill ? op::ProgramKind::prefill : op::ProgramKind::decode);
  builder.set_feeds_whole();
  const BatchShape one_text{.samples = 1, .length = length};
  builder.set_role(write(builder, use, one_text), graph::ValueRole::output);
  return builder.take();
}

}  // namespace

graph::ModelGraphs text_graphs(const WriteLogits& write, const BatchShape& batch,
                               const graph::OptimizerSpec& optimizer, Writes writes,
                               std::int64_t num_layers, std::int64_t longest_text) {
  require(batch.length <= longest_text, "a sample is no longer than the longest text");
  const auto classifier = [&](const BatchShape& of_graph) {
    const auto logits = [&](Builder& builder, Use use) {
      return write(builder, use == Use::train ? TextUse::train : TextUse::evaluate, of_graph);
    };
    return Classifier{
        logits, {of_graph.samples, of_graph.length}, batch.global_batch * batch.length};
  };
  const BatchShape chunk = batch.of_chunk();
  std::vector<graph::Graph> graphs = {training_graph(classifier(chunk), optimizer),
                                      evaluation_graph(classifier(batch))};
  if (writes == Writes::samples) {
    graphs.push_back(text_graph(write, TextUse::prefill, longest_text));
    graphs.push_back(text_graph(write, TextUse::decode, 1));
  }
  return with_state_graphs(std::move(graphs), num_layers);
}

}  // namespace fourfold::model
