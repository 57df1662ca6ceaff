// How a diffusion model is trained and what it samples by: filled by config/, read by model/.
#pragma once

#include <cstdint>

namespace fourfold::model {

enum class NoiseSchedule : std::uint8_t { linear, cosine };

/// Which times a model is trained at: all as often, or those more often whose loss is large, with
/// weights that keep the mean (Nichol, Dhariwal 2021, section 3.3).
enum class TimeSampling : std::uint8_t { uniform, importance };

/// How a picture is made out of noise: by the steps of the process backwards (Ho et al. 2020), or
/// by implicit ones (DDIM, Song et al. 2021), of which few do.
enum class Sampler : std::uint8_t { ddpm, ddim };

struct SamplingSpec {
  Sampler sampler = Sampler::ddim;
  std::int64_t steps = 50;  // of all times, spread evenly; 0: all of them
  double eta = 0;           // noise that DDIM adds: 0 none, 1 as much as the process
  bool operator==(const SamplingSpec&) const = default;
};

struct DiffusionSpec {
  std::int64_t steps = 1000;  // times of the process
  NoiseSchedule schedule = NoiseSchedule::cosine;
  TimeSampling time_sampling = TimeSampling::uniform;
  /// True if the model says where the variance of each step lies, beside its mean.
  bool learn_sigma = false;
  /// What the bound on the likelihood weighs beside the error of the noise, summed over all times:
  /// the lambda of Nichol, Dhariwal 2021, section 3.2. It trains the variance alone.
  double bound_weight = 0.001;
  /// How much of itself the moving average of a weight keeps in a step; pictures are made with the
  /// averages. 0: there are none.
  double average_decay = 0.9999;
  SamplingSpec sampling;
  bool operator==(const DiffusionSpec&) const = default;
};

}  // namespace fourfold::model
