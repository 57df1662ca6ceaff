#include "config/uses.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/model.h"

namespace fourfold::config {
namespace {

constexpr std::int64_t most_pictures_at_once = 16;

/// One rank that looks at so many samples of a trained model at once.
Config for_samples(const Config& trained, const Server& server, std::int64_t samples) {
  Config config = for_writing(trained, server);
  config.plan.global_batch_size = samples;
  config.micro_batch_size = samples;
  return config;
}

}  // namespace

Config for_kernels_of_cpu(const Config& trained) {
  Config config = trained;
  if (config.plan.compute == DType::bf16 && config.kernels != "reference")
    config.plan.compute = config.residual = DType::f32;
  return config;
}

Config for_writing(const Config& trained, const Server& server) {
  Config config = trained;
  config.threads = server.threads;
  config.device = server.device;
  // One that was measured is for the products of the training step.
  config.kernel_table = KernelTable::builtin;
  config.plan.grid = {};
  config.plan.pipeline = {};
  config.plan.pins.clear();
  config.plan.layout.reset();
  config.layout.clear();
  config.open_axes = {};
  config.plan.strategy = plan::Strategy::axonn;
  config.plan.shard_sequence = false;
  config.plan.chunks = 1;
  return config;
}

Config for_text(const Config& trained, const Server& server, std::int64_t tokens) {
  Config config = for_writing(trained, server);
  config.set_model(model::with_longest_text(config.model(), tokens));
  config.data.seq_length = std::min(config.data.seq_length, model::longest_text(config.model()));
  return config;
}

Config for_pictures(const Config& trained, const Server& server, std::int64_t count,
                    const Sampling& sampling) {
  Config config =
      for_samples(trained, server, std::clamp<std::int64_t>(count, 1, most_pictures_at_once));
  model::Spec making = config.model();
  model::SamplingSpec& how = model::diffusion(making)->sampling;
  const std::int64_t all = model::diffusion(making)->steps;
  how.steps = sampling.steps.value_or(how.steps);
  how.sampler = sampling.sampler.value_or(how.sampler);
  how.eta = sampling.eta.value_or(how.eta);
  if (how.steps > all)
    throw UserError(ExitCode::bad_config,
                    format("--steps {}: the run has {} times of noise; expected at most that, or 0 "
                           "for all of them",
                           how.steps, all));
  if (how.steps == 0) how.steps = all;
  config.set_model(making);
  return config;
}

Config for_scoring(const Config& trained, const Server& server, std::optional<std::int64_t> window,
                   std::int64_t labels) {
  const std::int64_t length = window.value_or(trained.data.seq_length);
  if (const std::int64_t most = model::longest_text(trained.model()); length > most)
    throw UserError(
        ExitCode::bad_config,
        format("--window {}: the model knows {} positions; expected at most that", length, most));
  constexpr std::int64_t tokens_at_once = 2048;
  Config config = for_samples(
      trained, server,
      std::clamp<std::int64_t>(tokens_at_once / length, 1, (labels + length - 1) / length));
  config.plan.shard_states = false;
  config.sample.tokens = 0;
  config.data.mask_documents = config.data.restart_positions = false;  // the text is one document
  config.data.seq_length = length;
  return config;
}

Config for_judging(const Config& trained, const Server& server, const PictureSet& set,
                   std::optional<std::int64_t> pictures) {
  Config config = for_samples(
      trained, server,
      std::clamp<std::int64_t>(pictures.value_or(most_pictures_at_once), 1, most_pictures_at_once));
  config.plan.shard_states = false;
  config.data.format = set.format;
  config.data.path = config.data.validation = set.path;  // the set validates alone
  config.data.flip = false;
  return config;
}

Config for_steps(const Config& config, std::int64_t steps, int threads) {
  Config result = config;
  if (threads > 0) result.threads = threads;
  result.train.steps = steps;
  result.train.eval_interval = 0;
  result.sample.tokens = 0;
  return result;
}

Config for_measuring(const Config& config, const std::string& device, int threads) {
  Config result = config;
  result.device = device;
  result.kernel_table = KernelTable::builtin;
  if (threads > 0) result.threads = threads;
  return result;
}

Config for_one_rank(const Config& config, std::int64_t samples, std::int64_t times) {
  Config result = config;
  result.plan.grid = {};
  result.plan.pipeline = {};
  result.plan.pins.clear();
  result.plan.layout.reset();
  result.layout.clear();
  result.plan.chunks = 1;
  result.micro_batch_size = samples;
  result.plan.global_batch_size = times * samples;
  return result;
}

}  // namespace fourfold::config
