// What commands make of the configuration of a run: the one in which one rank uses a trained model,
// however many have trained it, and those of measuring. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace fourfold::config {

/// What was trained in bf16 has float32 weights, and the kernels of a CPU compute with those.
Config for_kernels_of_cpu(const Config& trained);

/// What computes: run.threads and run.device of the command, not of the training.
struct Server {
  int threads = 0;
  std::string device;
};

/// For writing text.
Config for_writing(const Config& trained, const Server& server);

/// For writing one text of so many tokens, the prompt among them: where positions are computed, no
/// more are kept.
Config for_text(const Config& trained, const Server& server, std::int64_t tokens);

/// How pictures are made; what is open is as the run has it.
struct Sampling {
  std::optional<std::int64_t> steps;  // 0: all times of noise
  std::optional<model::Sampler> sampler;
  std::optional<double> eta;
};
/// For making so many pictures, at most 16 at once. Errors: UserError(bad_config) for more steps
/// than the run has times of noise.
Config for_pictures(const Config& trained, const Server& server, std::int64_t count,
                    const Sampling& sampling);

/// For judging a text of so many labels, in windows of so many tokens; none: as trained. Errors:
/// UserError(bad_config) for a window that is longer than the model can look at.
Config for_scoring(const Config& trained, const Server& server, std::optional<std::int64_t> window,
                   std::int64_t labels);

/// Where pictures lie, and as what.
struct PictureSet {
  data::Format format = {};
  std::string path;
};
/// For judging the pictures of a set, at most 16 at once, of which so many are asked for; none:
/// all.
Config for_judging(const Config& trained, const Server& server, const PictureSet& set,
                   std::optional<std::int64_t> pictures);

/// A run of so many steps, after which nothing is evaluated and no sample is shown. `threads`: 0 is
/// as the run has it.
Config for_steps(const Config& config, std::int64_t steps, int threads);

/// On a device, "cpu" or "cuda", with the built-in table, as another one is about to be measured.
/// `threads`: as of for_steps.
Config for_measuring(const Config& config, const std::string& device, int threads);
/// A step of one rank: so many samples at once, so many times.
Config for_one_rank(const Config& config, std::int64_t samples, std::int64_t times);

}  // namespace fourfold::config
