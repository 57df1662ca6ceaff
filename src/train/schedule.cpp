#include "train/schedule.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace fourfold::train {
namespace {

/// How much of the way from `first` to `last` is done by `step`, in [0, 1]; 1 from `last` on.
double fraction(std::int64_t step, std::int64_t first, std::int64_t last) {
  if (step >= last) return 1;
  if (step <= first) return 0;
  return static_cast<double>(step - first) / static_cast<double>(last - first);
}

}  // namespace

double learning_rate(const ScheduleSpec& schedule, std::int64_t steps, std::int64_t step) {
  const std::int64_t warmup = schedule.warmup_steps;
  if (step < warmup)
    return schedule.lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const double range = schedule.lr - schedule.min_lr;
  const double decayed = fraction(step, warmup, schedule.decay_steps);
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return schedule.lr;
    case ScheduleKind::linear:
      return schedule.min_lr + (1 - decayed) * range;
    case ScheduleKind::cosine:
      return schedule.min_lr + 0.5 * (1 + std::cos(std::numbers::pi * decayed)) * range;
    case ScheduleKind::warmup_stable_decay:
      return schedule.min_lr + (1 - fraction(step, steps - schedule.decay_steps, steps)) * range;
  }
  fail_internal("every schedule has a formula");
}

}  // namespace fourfold::train
