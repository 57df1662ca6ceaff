// The learning rate of a step: a pure function of what a configuration says of it and of the
// number of the step.
#pragma once

#include <cstdint>

namespace fourfold::schedule {

enum class LearningRateKind { constant, linear, cosine, warmup_stable_decay };

/// Learning rate over steps 0, 1, ...: linear warm-up over `warmup_steps`, then by kind down to
/// `min_lr` at the end of `decay_steps`. For constant, linear and cosine `decay_steps` counts from
/// step 0 (as nanoGPT's lr_decay_iters); for warm-up-stable-decay it is the length of the final,
/// linear decay.
struct LearningRateSpec {
  LearningRateKind kind = LearningRateKind::cosine;
  double lr = 1e-3;
  double min_lr = 1e-4;
  std::int64_t warmup_steps = 100;
  std::int64_t decay_steps = 2000;
  bool operator==(const LearningRateSpec&) const = default;
};

/// The learning rate of step `step` = 0, 1, ... of a run of `steps`. Warm-up and cosine are
/// nanoGPT's get_lr (github.com/karpathy/nanoGPT, train.py): lr (step + 1) / (warmup + 1), then
///   min_lr + (1 + cos(pi (step - warmup) / (decay - warmup))) / 2 (lr - min_lr),   then min_lr.
/// `linear` has a straight line in the cosine's place, `constant` stays at lr.
/// `warmup_stable_decay` stays at lr and falls in a straight line from step steps - decay on, so
/// that step `steps` would have min_lr.
double learning_rate(const LearningRateSpec& spec, std::int64_t steps, std::int64_t step);

}  // namespace fourfold::schedule
