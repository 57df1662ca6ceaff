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
  /// Of samples that hold several documents: whether attention stops at their borders, and whether
  /// positions restart in each. Either way "train" and "evaluate" are fed document starts. A text
  /// that is written is one document.
  bool masks_documents = false, restarts_positions = false;
};

/// How the graphs are written, so that tensors can be cut over ranks. The functions are the same in
/// every form, up to rounding.
struct GptForm {
  /// Above 1: norms are layer_norm_moments of so many blocks of the hidden dim and
  /// layer_norm_apply, so that it can be cut by every divisor of this. Has to divide the hidden
  /// size.
  std::int64_t norm_parts = 1;
  /// The loss is logit_max, logit_sums and cross_entropy_merge, so that the vocabulary can be cut.
  bool vocabulary_parts = false;
  /// "prefill" and "decode" are among the graphs, and the caches they need among the state.
  bool writes_text = true;
  bool operator==(const GptForm&) const = default;
};

/// All graphs of a GPT over common parameters: "init", "train" (with gradients and update),
/// "evaluate", "prefill" (one text of up to `length` tokens, logits of position step.index),
/// "decode" (one more token), "digest".
graph::ModelGraphs build_gpt(const GptSpec& spec, const BatchShape& batch,
                             const graph::AdamWSpec& optimizer, const GptForm& form = {});

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
