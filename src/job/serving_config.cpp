#include "job/serving_config.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "model/model.h"

namespace fourfold::job {

config::Config writing_config(config::Config trained, const Server& server) {
  config::Config config = std::move(trained);
  config.threads = server.threads;
  config.device = server.device;
  // One that was measured is for the products of the training step.
  config.kernel_table = config::KernelTable::builtin;
  config.plan.grid = {};
  config.plan.pipeline = {};
  config.plan.pins.clear();
  config.open_axes = {};
  config.plan.strategy = plan::Strategy::axonn;
  config.plan.shard_sequence = false;
  config.plan.chunks = 1;
  return config;
}

config::Config picture_config(config::Config trained, const Server& server, std::int64_t count) {
  constexpr std::int64_t most_at_once = 16;
  config::Config config = writing_config(std::move(trained), server);
  config.plan.global_batch_size = std::clamp<std::int64_t>(count, 1, most_at_once);
  config.micro_batch_size = config.plan.global_batch_size;
  return config;
}

config::Config scoring_config(config::Config trained, const Server& server,
                              std::optional<std::int64_t> window, std::int64_t labels) {
  config::Config config = writing_config(std::move(trained), server);
  config.plan.shard_states = false;
  config.sample.tokens = 0;
  config.data.mask_documents = config.data.restart_positions = false;  // the text is one document
  const std::int64_t length = window.value_or(config.data.seq_length);
  if (const std::int64_t most = model::longest_text(config.model()); length > most)
    throw UserError(
        ExitCode::bad_config,
        format("--window {}: the model knows {} positions; expected at most that", length, most));
  constexpr std::int64_t tokens_at_once = 2048;
  config.data.seq_length = length;
  config.plan.global_batch_size =
      std::clamp<std::int64_t>(tokens_at_once / length, 1, (labels + length - 1) / length);
  config.micro_batch_size = config.plan.global_batch_size;
  return config;
}

}  // namespace fourfold::job
