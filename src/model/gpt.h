// GPT-2 written in graph/: pre-norm blocks, learned positions, tanh-GELU (Radford et al. 2019). No
// ranks, no devices.
#pragma once

#include "graph/graph.h"
#include "graph/optimizer_spec.h"
#include "model/gpt_spec.h"

namespace fourfold::model {

/// The batch that the training graph is written for.
struct BatchShape {
  std::int64_t samples = 1;       // of a micro-batch, over all ranks
  std::int64_t length = 1;        // tokens of a sample
  std::int64_t global_batch = 1;  // samples of a step
};

/// All graphs of a GPT over common parameters: "init", "train" (with gradients and update),
/// "evaluate", "prefill" (one text of up to `length` tokens, logits of position step.index),
/// "decode" (one more token), "digest".
graph::ModelGraphs build_gpt(const GptSpec& spec, const BatchShape& batch,
                             const graph::AdamWSpec& optimizer);

/// Number of parameters by part of the model, in the order of the model; parts of equal blocks are
/// added up.
struct PartCount {
  std::string part;
  std::int64_t parameters = 0;
};
std::vector<PartCount> count_parameters(const GptSpec& spec);

/// Model flops of one training step, forward and backward, without recomputation: 72 B s l h^2 (1 +
/// s/6h + V/12lh) for a ffn of width 4h (Narayanan et al. 2021, arXiv:2104.04473, section 5.1),
/// generalised to any ffn width.
double model_flops_per_step(const GptSpec& spec, std::int64_t global_batch, std::int64_t length);

}  // namespace fourfold::model
