// How a run proceeds: filled by config/, read by train/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "schedule/learning_rate.h"
#include "train/checkpoint_spec.h"
#include "train/loss_spike.h"

namespace fourfold::train {

struct TrainSpec {
  std::string run_name;
  std::string
      run_dir;  // made by the run; holds metrics.jsonl, config.resolved.yaml, model.safetensors
  std::uint64_t seed = 1;
  std::int64_t steps = 2000;
  schedule::LearningRateSpec schedule;
  /// Steps between console lines; none: every one of the first steps, then a line about every 10 s.
  std::optional<std::int64_t> log_interval;
  std::int64_t eval_interval = 250;  // steps between evaluations; 0: only at the end
  std::int64_t eval_batches =
      20;  // batches of an evaluation along the way; the last one takes the whole split
  /// Evaluations in a row without a lower loss after which the run ends; 0: it never does.
  std::int64_t early_stopping = 0;
  CheckpointSpec checkpoint = {};
  LossSpikeSpec loss_spike = {};
  /// Steps between comparisons of replicas; 0: they are not compared.
  std::int64_t replica_check_steps = 100;
  bool operator==(const TrainSpec&) const = default;
};

}  // namespace fourfold::train
