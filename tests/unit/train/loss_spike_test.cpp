#include "train/loss_spike.h"

#include <gtest/gtest.h>

namespace fourfold::train {
namespace {

constexpr auto warn = LossSpikeSpec::Action::warn;

TEST(LossSpikes, a_leap_is_seen_once_the_window_is_full) {
  LossSpikes spikes({.action = warn, .sigmas = 4, .window = 4});
  for (const double loss : {2.0, 2.2, 9.0}) EXPECT_FALSE(spikes.look(loss));
  for (const double loss : {2.0, 2.2, 2.0, 2.2, 2.0, 2.2}) EXPECT_FALSE(spikes.look(loss));
  const auto spike = spikes.look(2.7);
  ASSERT_TRUE(spike);
  EXPECT_NEAR(spike->sigma, 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(spike->median, 2.2);
}

TEST(LossSpikes, what_is_just_below_the_bound_and_what_falls_is_none) {
  LossSpikes spikes({.action = warn, .sigmas = 4, .window = 4});
  for (const double loss : {2.0, 2.2, 2.0, 2.2}) spikes.look(loss);
  EXPECT_FALSE(spikes.look(2.59));
  EXPECT_FALSE(spikes.look(0.1));
}

TEST(LossSpikes, a_level_that_stays_becomes_usual) {
  LossSpikes spikes({.action = warn, .sigmas = 3, .window = 4});
  for (const double loss : {1.0, 1.1, 1.0, 1.1}) spikes.look(loss);
  EXPECT_TRUE(spikes.look(5));
  int told = 0;
  for (int step = 0; step < 10; ++step) told += spikes.look(5) ? 1 : 0;
  EXPECT_LE(told, 1);
}

TEST(LossSpikes, losses_that_never_change_are_not_told_apart_by_their_last_digits) {
  LossSpikes spikes({.action = warn, .sigmas = 6, .window = 3});
  for (int step = 0; step < 3; ++step) spikes.look(3.0);
  EXPECT_FALSE(spikes.look(3.0000001));
  EXPECT_TRUE(spikes.look(3.1));
}

TEST(LossSpikes, none_looks_at_nothing) {
  LossSpikes spikes({.action = LossSpikeSpec::Action::none, .sigmas = 1, .window = 2});
  for (const double loss : {1.0, 1.0, 1.0, 100.0}) EXPECT_FALSE(spikes.look(loss));
}

}  // namespace
}  // namespace fourfold::train
