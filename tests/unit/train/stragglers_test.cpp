#include "train/stragglers.h"

#include <gtest/gtest.h>

namespace fourfold::train {
namespace {

/// The steps, counted from 1, at which the ranks' times gave a text.
std::vector<std::int64_t> told_at(Stragglers& stragglers, const std::vector<double>& times,
                                  std::int64_t steps) {
  std::vector<std::int64_t> told;
  for (std::int64_t step = 1; step <= steps; ++step)
    if (stragglers.look(times)) told.push_back(step);
  return told;
}

TEST(Stragglers, six_percent_for_fifty_steps_are_told_once) {
  Stragglers stragglers(4);
  EXPECT_EQ(told_at(stragglers, {1, 1.06, 1, 1}, 200), (std::vector<std::int64_t>{50}));
}

TEST(Stragglers, four_percent_are_not) {
  Stragglers stragglers(4);
  EXPECT_TRUE(told_at(stragglers, {1, 1.04, 1, 1}, 200).empty());
}

TEST(Stragglers, a_few_slow_steps_and_a_few_good_ones_do_not_count) {
  Stragglers slow_at_times(3), fast_at_times(3);
  std::size_t told = 0;
  for (int step = 0; step < 300; ++step) {
    const bool is_odd_one = step % 5 == 0;
    if (slow_at_times.look(std::vector<double>{1, 1, is_odd_one ? 9. : 1.})) ADD_FAILURE() << step;
    if (fast_at_times.look(std::vector<double>{1, 1, is_odd_one ? 1. : 2.})) ++told;
  }
  EXPECT_EQ(told, 1U);
}

TEST(Stragglers, one_that_was_in_time_again_is_told_again) {
  Stragglers stragglers(3);
  EXPECT_EQ(told_at(stragglers, {1, 1, 2}, 100).size(), 1U);
  EXPECT_TRUE(told_at(stragglers, {1, 1, 1}, 100).empty());
  EXPECT_EQ(told_at(stragglers, {1, 1, 2}, 100).size(), 1U);
}

TEST(Stragglers, one_that_comes_and_goes_is_told_ever_more_seldom) {
  Stragglers stragglers(2);
  std::vector<std::int64_t> told;
  for (std::int64_t step = 1; step <= 6400; ++step)
    if (stragglers.look(std::vector<double>{1, step / 100 % 2 == 0 ? 1.2 : 1.}))
      told.push_back(step);
  ASSERT_GE(told.size(), 2U);
  for (std::size_t i = 1; i < told.size(); ++i)
    EXPECT_GE(told[i], 2 * told[i - 1]) << "at least as many steps later as the run had then";
}

TEST(Stragglers, the_text_names_rank_excess_and_steps) {
  Stragglers stragglers(4);
  told_at(stragglers, {1, 1, 1, 1.5}, 49);
  EXPECT_EQ(stragglers.look(std::vector<double>{1, 1, 1, 1.5}),
            "rank 3 computes 50% longer than the median rank, over the last 50 steps, and all "
            "others wait for it; look at that host's other work and clock rates");
}

TEST(Stragglers, of_two_ranks_the_slower_one_is_told) {
  Stragglers stragglers(2);
  EXPECT_EQ(told_at(stragglers, {1, 1.2}, 60), (std::vector<std::int64_t>{50}));
}

TEST(Stragglers, a_step_has_a_median_and_a_slowest_rank) {
  const ComputeTimes times = Stragglers::summarize(std::vector<double>{4, 1, 9, 2});
  EXPECT_EQ(times.median_s, 3);
  EXPECT_EQ(times.slowest_s, 9);
  EXPECT_EQ(times.slowest_rank, 2);
}

}  // namespace
}  // namespace fourfold::train
