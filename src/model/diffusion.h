// What the graphs of every diffusion model share: times, noise, the loss, the update. Not the
// network that predicts the noise.
#pragma once

#include <functional>
#include <optional>

#include "graph/builder.h"
#include "graph/optimizer_spec.h"
#include "model/diffusion_spec.h"
#include "model/training.h"

namespace fourfold::model {

/// What the network is told of a batch.
struct NoisedPictures {
  graph::ValueId pictures;               // (B, H, W, C), with noise
  graph::ValueId t;                      // (B), the time of each
  std::optional<graph::ValueId> labels;  // (B), the class of each; none where nobody asks for it
};

struct Denoiser {
  /// Adds the network: (B, H, W, C), the noise; with learn_sigma (B, H, W, 2 C).
  std::function<graph::ValueId(graph::Builder& builder, Use use, const NoisedPictures& x)> output;
  Shape picture;  // height, width, channels
  std::int64_t samples = 1, samples_of_step = 1;
  DiffusionSpec spec;
  bool is_conditional = false;  // the network is told classes
};

/// Times and noise of a sample follow from step.seed, step.step and its number, which counts from
/// step.first_sample on.
graph::Graph training_graph(const Denoiser& model, const graph::OptimizerSpec& optimizer);
graph::Graph evaluation_graph(const Denoiser& model);
/// "bound": the term of the bound on the likelihood of the time `step.index`, in bits for each
/// element of a picture; the noise follows from the step.
graph::Graph bound_graph(const Denoiser& model);
/// "denoise": one step, of number step.index, from noise to a picture, in the cache
/// `denoised_pictures` (B, H, W, C): the last one is 0. The noise of pictures is that of their
/// numbers, of which step.first_sample is the first.
graph::Graph denoising_graph(const Denoiser& model);
inline constexpr const char* denoised_pictures = "denoised";

}  // namespace fourfold::model
