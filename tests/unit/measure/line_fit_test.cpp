// The line through times of exchanges.
#include "measure/line_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace fourfold::measure {
namespace {

TEST(LineFit, a_line_is_found_again) {
  std::vector<TimedBytes> samples;
  for (double bytes = 1024; bytes < 1e8; bytes *= 4) samples.push_back({bytes, 5e-6 + bytes / 3e9});
  const LineFit fit = fit_line(samples);
  EXPECT_NEAR(fit.latency_s, 5e-6, 1e-12);
  EXPECT_NEAR(fit.bytes_per_s, 3e9, 1e3);
  EXPECT_NEAR(fit.worst_error, 0, 1e-9);
  EXPECT_NEAR(fit.seconds(3e9), 1 + 5e-6, 1e-6);
}

TEST(LineFit, small_exchanges_count_as_much_as_large_ones) {
  // Half a second more on the last one moves absolute least squares' latency by a lot.
  std::vector<TimedBytes> samples = {
      {1e3, 1.1e-5}, {1e4, 2e-5}, {1e5, 1.1e-4}, {1e6, 1.01e-3}, {1e9, 1.5}};
  const LineFit fit = fit_line(samples);
  EXPECT_NEAR(fit.latency_s, 1e-5, 2e-6);
  EXPECT_LT(fit.worst_error, 0.35);
}

TEST(LineFit, one_time_that_is_much_too_short_does_not_take_the_latency_away) {
  std::vector<TimedBytes> samples;
  for (double bytes = 4096; bytes < 2e7; bytes *= 4) samples.push_back({bytes, 9e-6 + bytes / 9e9});
  samples[1].seconds /= 10;
  EXPECT_GT(fit_line(samples).latency_s, 5e-6);
  EXPECT_NEAR(fit_line(samples).bytes_per_s, 9e9, 1.5e9);
}

TEST(LineFit, a_latency_is_not_negative) {
  const std::vector<TimedBytes> samples = {{1e3, 1e-7}, {1e6, 1e-3}, {2e6, 2.2e-3}};
  EXPECT_EQ(fit_line(samples).latency_s, 0);
  EXPECT_GT(fit_line(samples).bytes_per_s, 0);
}

TEST(LineFit, times_that_fall_give_a_rate_all_the_same) {
  const std::vector<TimedBytes> samples = {{1e3, 2e-5}, {1e4, 1e-5}};
  EXPECT_EQ(fit_line(samples).latency_s, 0);
  EXPECT_GT(fit_line(samples).bytes_per_s, 0);
}

}  // namespace
}  // namespace fourfold::measure
