// Hugging Face's Llama, Mistral, Qwen2 and Qwen3, from and to our LlamaSpec.
#pragma once

#include "interop/hub_family.h"

namespace fourfold::interop {

/// Theirs have a matrix [out, in] each for queries, keys, values, gate and up; ours are two, [in,
/// out], with the queries, the key and the value of a group of heads together, and gate before up.
/// Both turn the halves of a head. An exported model is of the first class that computes it: a
/// Qwen3 with head norms, a Qwen2 with biases of queries, keys and values alone, else a Llama,
/// which a Mistral without a window is too.
const HubFamily& llama_family();

/// The keys of rotary positions of a config.json, as transformers 4 (rope_theta, rope_scaling) or 5
/// (rope_parameters) writes them.
model::RopeSpec read_rope(ConfigReader& reader, std::int64_t max_positions);
/// Sets the keys of both.
void write_rope(Json& json, const model::RopeSpec& rope);

}  // namespace fourfold::interop
