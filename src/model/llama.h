// The model of Llama, Mistral without a window, Qwen2 and Qwen3 written in graph/: pre-norm layers
// with RMS norms, heads in groups that share a key and a value, rotary positions, a gated MLP
// (Touvron et al. 2023, arXiv:2302.13971; Grattafiori et al. 2024, arXiv:2407.21783; Yang et al.
// 2025, arXiv:2505.09388). No ranks, no devices. model.h says what each function gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/optimizer_spec.h"
#include "model/batch_shape.h"
#include "model/llama_spec.h"

namespace fourfold::model {

/// "prefill" takes one text of up to max_position_embeddings tokens and gives the logits of
/// position step.index, "decode" takes one more token.
graph::ModelGraphs build(const LlamaSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes = Writes::samples);

std::vector<ParameterCount> count_parameters(const LlamaSpec& spec);

/// As of a GPT (gpt.h), with what the products of this model multiply: keys and values of groups,
/// three matrices of an MLP.
double model_flops_per_step(const LlamaSpec& spec, std::int64_t global_batch, std::int64_t length);

std::string describe(const LlamaSpec& spec);
std::int64_t num_layers(const LlamaSpec& spec);
LlamaSpec smallest_alike(LlamaSpec spec);

DataFacts data_facts(const LlamaSpec& spec);
void settle(LlamaSpec& spec, const DataFacts& facts);

std::int64_t longest_text(const LlamaSpec& spec);
/// Positions are computed, so that fewer of them make the same model.
void shorten(LlamaSpec& spec, std::int64_t longest_text);
std::int64_t stream_width(const LlamaSpec& spec);

}  // namespace fourfold::model
