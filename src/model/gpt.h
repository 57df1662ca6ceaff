// GPT-2 written in graph/: pre-norm layers, learned positions, tanh-GELU (Radford et al. 2019). No
// ranks, no devices. model.h says what each function gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/optimizer_spec.h"
#include "model/batch_shape.h"
#include "model/gpt_spec.h"

namespace fourfold::model {

/// "prefill" takes one text of up to max_position_embeddings tokens and gives the logits of
/// position step.index, "decode" takes one more token.
graph::ModelGraphs build(const GptSpec& spec, const BatchShape& batch,
                         const graph::OptimizerSpec& optimizer, Writes writes = Writes::samples);

std::vector<ParameterCount> count_parameters(const GptSpec& spec);

/// 72 B s l h^2 (1 + s/6h + V/12lh) for a ffn of width 4h (Narayanan et al. 2021, arXiv:2104.04473,
/// section 5.1), generalised to any ffn width.
double model_flops_per_step(const GptSpec& spec, std::int64_t global_batch, std::int64_t length);

std::string describe(const GptSpec& spec);
std::int64_t num_layers(const GptSpec& spec);
GptSpec smallest_alike(GptSpec spec);

DataFacts data_facts(const GptSpec& spec);
void settle(GptSpec& spec, const DataFacts& facts);

/// Positions are learned, so there are no more than these.
std::int64_t longest_text(const GptSpec& spec);
std::int64_t stream_width(const GptSpec& spec);

}  // namespace fourfold::model
