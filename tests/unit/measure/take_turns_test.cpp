#include "measure/take_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace fourfold::measure {
namespace {

/// A host that takes 1.6 times as long in every second stretch of time, of random length.
class UnsteadyHost {
 public:
  UnsteadyHost(std::uint32_t seed, double stretch_s) : random_(seed), length_(1 / stretch_s) {}

  /// How long work takes that a steady host does in so many seconds.
  double time_s(double work_s) {
    double taken_s = 0;
    while (work_s > 0) {
      if (left_s_ <= 0) {
        left_s_ = length_(random_);
        is_slow_ = !is_slow_;
      }
      const double slowness = is_slow_ ? 1.6 : 1;
      const double now_s = std::min(left_s_, work_s * slowness);
      left_s_ -= now_s;
      work_s -= now_s / slowness;
      taken_s += now_s;
    }
    return taken_s;
  }

 private:
  std::mt19937 random_;
  std::exponential_distribution<> length_;
  double left_s_ = 0;
  bool is_slow_ = false;
};

TEST(TakeTurns, a_host_that_changes_its_speed_does_not_change_the_order) {
  // Calls of a sixth of what each may take, on a host whose speed lasts for some of them.
  const std::vector<double> call_s = {10.6e-3, 11.2e-3, 10e-3};
  int right = 0;
  constexpr int hosts = 200;
  for (int host = 0; host < hosts; ++host) {
    UnsteadyHost unsteady(static_cast<std::uint32_t>(host), 0.1);
    const std::vector<double> seconds = take_turns(
        3, 0.06, [&](std::size_t i, int calls) { return unsteady.time_s(calls * call_s[i]); });
    right += seconds[2] < seconds[0] && seconds[0] < seconds[1] ? 1 : 0;
  }
  EXPECT_GE(right, 0.95 * hosts);  // by their least times four of five have this order
}

TEST(TakeTurns, on_a_steady_host_times_are_those_of_the_calls) {
  const std::vector<double> call_s = {3e-4, 2.5e-4, 3.5e-4};
  std::vector<double> spent(3, 0);
  const std::vector<double> seconds = take_turns(3, 0.02, [&](std::size_t i, int calls) {
    spent[i] += calls * call_s[i];
    return calls * call_s[i];
  });
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(seconds[i], call_s[i], 1e-12) << i;
    EXPECT_NEAR(spent[i], 0.02, 0.008) << i;
  }
}

TEST(TakeTurns, one_that_is_far_slower_has_three_turns) {
  std::vector<int> turns(3, 0);
  const std::vector<double> call_s = {2e-3, 3.2e-3, 2.1e-3};
  take_turns(3, 0.05, [&](std::size_t i, int calls) {
    ++turns[i];
    return calls * call_s[i];
  });
  EXPECT_EQ(turns[1], 3);
  EXPECT_EQ(turns[0], turns[2]);
  EXPECT_GT(turns[0], 20);
}

TEST(TakeTurns, a_clock_that_does_not_move_for_a_call_is_asked_about_more_of_them) {
  const auto coarse = [](std::size_t i, int calls) {
    const double seconds = calls * (i == 0 ? 2e-8 : 3e-8);
    return static_cast<double>(static_cast<std::int64_t>(seconds * 1e6)) * 1e-6;
  };
  const std::vector<double> seconds = take_turns(2, 0.05, coarse);
  EXPECT_NEAR(seconds[0], 2e-8, 1e-10);
  EXPECT_NEAR(seconds[1], 3e-8, 1e-9);
}

TEST(TakeTurns, all_have_three_turns_however_long_they_take) {
  std::vector<int> turns(2, 0);
  const std::vector<double> seconds = take_turns(2, 0.001, [&](std::size_t i, int) {
    ++turns[i];
    return i == 0 ? 1. : 2.;
  });
  EXPECT_EQ(turns, (std::vector<int>{3, 3}));
  EXPECT_EQ(seconds, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace fourfold::measure
