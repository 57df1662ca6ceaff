// The size and the work of GPTs in closed form, as the papers count them. Not those of a model's
// graph, which has biases and norms (model::count_parameters, model::model_flops_per_step).
#pragma once

namespace fourfold::search {

struct GptSizes {
  double layers = 1, hidden = 1;
  double batch = 1, length = 1;  // samples of a step, tokens of a sample
  double vocabulary = 0;         // 0: the head is not counted
};

/// 12 L h^2, and V h for an embedding that is the head too.
double gpt_parameters(const GptSizes& sizes);
/// Forward and backward pass: 72 B s L h^2 (1 + s / 6h + V / 12 L h) (Narayanan et al. 2021,
/// arXiv:2104.04473, equation 3 without recomputation).
double gpt_model_flops(const GptSizes& sizes);
/// With the forward pass of every layer twice: 96 B s L h^2 (1 + s / 6h + V / 16 L h).
double gpt_recomputed_flops(const GptSizes& sizes);
/// The time of a step of so many flops on `devices` that reach a share of their peak.
double step_seconds(double flops, double devices, double peak_flops_per_s, double share);

}  // namespace fourfold::search
