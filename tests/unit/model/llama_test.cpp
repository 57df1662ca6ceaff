// The size and the work of a Llama by formula, against its graphs.
#include "model/llama.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace fourfold::model {
namespace {

constexpr std::int64_t samples = 3, length = 10;

std::vector<LlamaSpec> llamas() {
  const LlamaSpec base = {.num_layers = 2,
                          .num_attention_heads = 6,
                          .num_key_value_heads = 2,
                          .head_dim = 10,
                          .hidden_size = 24,
                          .ffn_hidden_size = 28,
                          .max_position_embeddings = 16,
                          .vocab_size = 37};
  std::vector<LlamaSpec> all(5, base);
  all[1].num_key_value_heads = 1;
  all[1].head_norm = true;
  all[2].num_key_value_heads = 6;
  all[2].attention_bias = AttentionBias::all;
  all[2].mlp_bias = true;
  all[3].num_key_value_heads = 3;
  all[3].tied_head = false;
  all[4].attention_bias = AttentionBias::qkv;
  all[4].wide_residual = true;
  return all;
}

graph::Graph train_graph(const LlamaSpec& spec) {
  return build(spec, {samples, length, samples}, {}, Writes::nothing).at(op::ProgramKind::train);
}

/// Every product of a step is counted, and attention over whole texts: the graph has the lower
/// triangle alone, and its gradient computes the weights again.
TEST(Llama, model_flops_are_those_of_the_products_of_its_graph) {
  for (const LlamaSpec& spec : llamas()) {
    const graph::Graph train = train_graph(spec);
    double products = 0, attention = 0;
    for (const graph::Node& node : train.nodes) {
      if (node.op.is<op::Contract>()) products += flops_of(train, node);
      if (node.op.is<op::Attention>()) attention += flops_of(train, node);
    }
    const double whole = 2.0 * length / (length + 1);
    EXPECT_DOUBLE_EQ(model_flops_per_step(spec, samples, length), products + 3 * whole * attention)
        << describe(spec);
  }
}

/// Grouped heads are as much work as heads that share nothing, beside the product that makes keys
/// and values.
TEST(Llama, shared_keys_save_the_products_that_make_them) {
  LlamaSpec spec = llamas()[0];
  const double grouped = model_flops_per_step(spec, samples, length);
  spec.num_key_value_heads = spec.num_attention_heads;
  const double saved = model_flops_per_step(spec, samples, length) - grouped;
  const double keys = 2 * (6 - 2) * 10;  // widths of the keys and values that heads share
  EXPECT_DOUBLE_EQ(saved, 3.0 * 2 * samples * length * 2 * 24 * keys);
}

TEST(Llama, parameters_are_counted_as_its_graph_has_them) {
  for (const LlamaSpec& spec : llamas()) {
    std::int64_t counted = 0, expected = 0;
    for (const ParameterCount& part : count_parameters(spec)) counted += part.parameters;
    for (const graph::Value& value : train_graph(spec).values)
      if (value.role == graph::ValueRole::parameter) expected += value.shape.elements();
    EXPECT_EQ(counted, expected) << describe(spec);
  }
}

}  // namespace
}  // namespace fourfold::model
