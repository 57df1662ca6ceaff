// How a run proceeds: filled by config/, read by train/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train/checkpoint_spec.h"
#include "train/loss_spike.h"

namespace fourfold::train {

enum class ScheduleKind { constant, linear, cosine, warmup_stable_decay };

/// Learning rate over steps 0, 1, ...: linear warm-up over `warmup_steps`, then by kind down to
/// `min_lr` at the end of `decay_steps`. For constant, linear and cosine `decay_steps` counts from
/// step 0 (as nanoGPT's lr_decay_iters); for warm-up-stable-decay it is the length of the final,
/// linear decay.
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::cosine;
  double lr = 1e-3;
  double min_lr = 1e-4;
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 2000;
  bool operator==(const ScheduleSpec&) const = default;
};

struct TrainSpec {
  std::string run_name;
  std::string
      run_dir;  // made by the run; holds metrics.jsonl, config.resolved.yaml, model.safetensors
  std::uint64_t seed = 1;
  std::int64_t steps = 2000;
  ScheduleSpec schedule;
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
