// What a GPT is made of: filled by config/, read by model/.
#pragma once

#include <cstdint>

#include "model/family.h"

namespace fourfold::model {

struct GptSpec {
  static constexpr Family family = {.name = "gpt",
                                    .title = "GPT",
                                    .does = "writes text",
                                    .reads = Reads::text,
                                    .makes = Makes::text,
                                    .has_equal_layers = true,
                                    .has_residual_stream = true};
  std::int64_t num_layers = 4;
  std::int64_t num_attention_heads = 4;
  std::int64_t hidden_size = 128;
  std::int64_t ffn_hidden_size = 512;
  std::int64_t max_position_embeddings = 64;
  std::int64_t vocab_size = 0;
  double dropout = 0;  // of embeddings, attention probabilities and both residual branches
  bool bias = true;    // biases of linears and norms
  bool tied_head = true;
  double layer_norm_epsilon = 1e-5;
  /// The residual stream and its gradient are kept in the type of sums, float32 beside bf16.
  bool wide_residual = false;
  double init_stddev = 0.02;  // residual projections: divided by sqrt(2 num_layers), as in GPT-2
  bool operator==(const GptSpec&) const = default;
};

}  // namespace fourfold::model
