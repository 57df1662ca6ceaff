#include "schedule/learning_rate.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace fourfold::schedule {
namespace {

/// How much of the way from `first` to `last` is done by `step`, in [0, 1]; 1 from `last` on.
double fraction(std::int64_t step, std::int64_t first, std::int64_t last) {
  if (step >= last) return 1;
  if (step <= first) return 0;
  return static_cast<double>(step - first) / static_cast<double>(last - first);
}

}  // namespace

double learning_rate(const LearningRateSpec& spec, std::int64_t steps, std::int64_t step) {
  const std::int64_t warmup = spec.warmup_steps;
  if (step < warmup)
    return spec.lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const double range = spec.lr - spec.min_lr;
  const double decayed = fraction(step, warmup, spec.decay_steps);
  switch (spec.kind) {
    case LearningRateKind::constant:
      return spec.lr;
    case LearningRateKind::linear:
      return spec.min_lr + (1 - decayed) * range;
    case LearningRateKind::cosine:
      return spec.min_lr + 0.5 * (1 + std::cos(std::numbers::pi * decayed)) * range;
    case LearningRateKind::warmup_stable_decay:
      return spec.min_lr + (1 - fraction(step, steps - spec.decay_steps, steps)) * range;
  }
  fail_internal("every schedule has a formula");
}

}  // namespace fourfold::schedule
