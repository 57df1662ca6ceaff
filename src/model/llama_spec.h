// What a model of Llama's kind is made of: filled by config/, read by model/.
#pragma once

#include <cstdint>

#include "model/family.h"

namespace fourfold::model {

/// How the frequencies of rotary positions are made, by the names of transformers.
enum class RopeKind : std::uint8_t { plain, linear, llama3, yarn };

struct RopeSpec {
  RopeKind kind = RopeKind::plain;
  double theta = 10000;
  double factor = 1;  // of linear, llama3 and yarn: by which a text may be longer
  /// Positions that the model was trained on before; of llama3 and yarn.
  std::int64_t original_positions = 64;
  double low_freq_factor = 1, high_freq_factor = 4;  // of llama3
  double beta_fast = 32, beta_slow = 1;              // of yarn
  double attention_factor = 0;                       // of yarn; 0: it follows from `factor`
  bool truncate = true;                              // of yarn: whole numbers bound the ramp
  bool operator==(const RopeSpec&) const = default;
};

/// Which linear layers around attention have biases.
enum class AttentionBias : std::uint8_t { none, qkv, all };

struct LlamaSpec {
  static constexpr Family family = {.name = "llama",
                                    .title = "Llama",
                                    .does = "writes text",
                                    .reads = Reads::text,
                                    .makes = Makes::text,
                                    .has_equal_layers = true,
                                    .has_residual_stream = true};
  std::int64_t num_layers = 4;
  std::int64_t num_attention_heads = 4;
  std::int64_t num_key_value_heads = 4;  // groups of heads that share a key and a value
  std::int64_t head_dim = 32;
  std::int64_t hidden_size = 128;
  std::int64_t ffn_hidden_size = 384;
  std::int64_t max_position_embeddings = 64;
  std::int64_t vocab_size = 0;
  AttentionBias attention_bias = AttentionBias::none;
  bool mlp_bias = false;
  bool head_norm = false;  // of queries and keys
  bool tied_head = true;
  double layer_norm_epsilon = 1e-5;
  RopeSpec rope = {};
  /// The residual stream and its gradient are kept in the type of sums, float32 beside bf16.
  bool wide_residual = false;
  double init_stddev = 0.02;  // residual projections: divided by sqrt(2 num_layers), as in GPT-2
  bool operator==(const LlamaSpec&) const = default;

  std::int64_t heads_of_group() const { return num_attention_heads / num_key_value_heads; }
};

}  // namespace fourfold::model
