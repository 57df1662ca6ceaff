#include "schedule/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fourfold::schedule {
namespace {

constexpr std::int64_t steps = 2000;

LearningRateSpec schedule(LearningRateKind kind, std::int64_t warmup = 100,
                          std::int64_t decay = 2000) {
  return {.kind = kind, .lr = 1e-3, .min_lr = 1e-4, .warmup_steps = warmup, .decay_steps = decay};
}

const std::vector<LearningRateKind> all_kinds = {LearningRateKind::constant,
                                                 LearningRateKind::linear, LearningRateKind::cosine,
                                                 LearningRateKind::warmup_stable_decay};

/// nanoGPT's get_lr, as its train.py has it.
double nanogpt(std::int64_t it, double lr, double min_lr, std::int64_t warmup, std::int64_t decay) {
  if (it < warmup) return lr * static_cast<double>(it + 1) / static_cast<double>(warmup + 1);
  if (it > decay) return min_lr;
  const double ratio = static_cast<double>(it - warmup) / static_cast<double>(decay - warmup);
  return min_lr + 0.5 * (1.0 + std::cos(M_PI * ratio)) * (lr - min_lr);
}

TEST(LearningRate, cosine_is_nanogpts_at_every_step_in_bits) {
  for (std::int64_t step = 0; step < 2500; ++step)
    ASSERT_EQ(learning_rate(schedule(LearningRateKind::cosine), steps, step),
              nanogpt(step, 1e-3, 1e-4, 100, 2000))
        << step;
}

TEST(LearningRate, warm_up_rises_in_equal_parts_and_ends_at_the_full_rate) {
  for (const LearningRateKind kind : all_kinds) {
    // A stable phase for warm-up-stable-decay: its decay is the last 500 steps.
    const LearningRateSpec spec =
        schedule(kind, 100, kind == LearningRateKind::warmup_stable_decay ? 500 : 2000);
    EXPECT_EQ(learning_rate(spec, steps, 0), 1e-3 * 1 / 101);
    EXPECT_EQ(learning_rate(spec, steps, 99), 1e-3 * 100 / 101);
    EXPECT_DOUBLE_EQ(learning_rate(spec, steps, 100), 1e-3);
  }
}

TEST(LearningRate, without_warm_up_the_first_step_has_the_full_rate) {
  for (const LearningRateKind kind : all_kinds)
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 0), steps, 0), 1e-3);
}

TEST(LearningRate, linear_passes_the_middle_half_way_down) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(LearningRateKind::linear), steps, 1050), 5.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(LearningRateKind::linear), steps, 2000), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(LearningRateKind::linear), steps, 2400), 1e-4);
}

TEST(LearningRate, constant_stays_for_ever) {
  for (const std::int64_t step : {100, 1999, 2000, 100000})
    EXPECT_EQ(learning_rate(schedule(LearningRateKind::constant), steps, step), 1e-3);
}

TEST(LearningRate, warm_up_stable_decay_falls_only_over_the_last_decay_steps) {
  const LearningRateSpec spec = schedule(LearningRateKind::warmup_stable_decay, 100, 500);
  for (const std::int64_t step : {100, 1000, 1500})
    EXPECT_DOUBLE_EQ(learning_rate(spec, steps, step), 1e-3);
  EXPECT_LT(learning_rate(spec, steps, 1501), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(spec, steps, 1750), 5.5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(spec, steps, 2000), 1e-4);
}

TEST(LearningRate, warm_up_stable_decay_without_decay_stays_stable_to_the_end) {
  EXPECT_DOUBLE_EQ(
      learning_rate(schedule(LearningRateKind::warmup_stable_decay, 100, 0), steps, 1999), 1e-3);
}

TEST(LearningRate, a_decay_that_ends_with_the_warm_up_goes_on_at_the_minimum) {
  for (const LearningRateKind kind : {LearningRateKind::linear, LearningRateKind::cosine}) {
    EXPECT_EQ(learning_rate(schedule(kind, 100, 100), steps, 99), 1e-3 * 100 / 101);
    EXPECT_EQ(learning_rate(schedule(kind, 100, 100), steps, 100), 1e-4);
    EXPECT_EQ(learning_rate(schedule(kind, 100, 100), steps, 101), 1e-4);
  }
}

TEST(LearningRate, it_rises_in_the_warm_up_and_never_behind_it) {
  for (const LearningRateKind kind : all_kinds) {
    const LearningRateSpec spec =
        schedule(kind, 100, kind == LearningRateKind::warmup_stable_decay ? 500 : 2000);
    for (std::int64_t step = 1; step < 2100; ++step) {
      const double before = learning_rate(spec, steps, step - 1),
                   now = learning_rate(spec, steps, step);
      if (step <= 100)
        ASSERT_GT(now, before) << step;
      else
        ASSERT_LE(now, before) << step;
    }
  }
}

}  // namespace
}  // namespace fourfold::schedule
