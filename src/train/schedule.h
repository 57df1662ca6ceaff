// The learning rate of a step: a pure function.
#pragma once

#include <cstdint>

#include "train/train_spec.h"

namespace fourfold::train {

/// The learning rate of step `step` = 0, 1, ... of a run of `steps`. Warm-up and cosine are
/// nanoGPT's get_lr (github.com/karpathy/nanoGPT, train.py): lr (step + 1) / (warmup + 1), then
///   min_lr + (1 + cos(pi (step - warmup) / (decay - warmup))) / 2 (lr - min_lr),   then min_lr.
/// `linear` has a straight line in the cosine's place, `constant` stays at lr.
/// `warmup_stable_decay` stays at lr and falls in a straight line from step steps - decay on, so
/// that step `steps` would have min_lr.
double learning_rate(const ScheduleSpec& schedule, std::int64_t steps, std::int64_t step);

}  // namespace fourfold::train
