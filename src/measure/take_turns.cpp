#include "measure/take_turns.h"

#include <algorithm>

namespace fourfold::measure {
namespace {

constexpr std::size_t least_turns = 3;
constexpr double far_slower = 1.5, turn_s = 1e-3;
constexpr double least_s = 1e-9;  // a clock may not have moved

/// What is known of one contender so far.
struct Score {
  std::vector<double> ratios;  // to the first one's time, a turn each
  double spent_s = 0;
  int calls = 1;  // of its next turn
  bool is_in = true;

  /// The lower one of two in the middle.
  double median_ratio() const {
    std::vector<double> sorted = ratios;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
    std::ranges::nth_element(sorted, middle);
    return *middle;
  }
};

}  // namespace

std::vector<double> take_turns(std::size_t contenders, double seconds_each, const TimeCalls& time) {
  std::vector<Score> all(contenders);
  double first_least_s = 0;  // of its turns that are long enough, else of the last one
  bool first_was_short = true;
  for (std::size_t turn = 1;; ++turn) {
    double first_s = 0, spent_s = 0, wanted_s = 0, best = 1;
    for (std::size_t i = 0; i < contenders; ++i) {
      Score& one = all[i];
      if (!one.is_in) continue;
      const double seconds = std::max(least_s, time(i, one.calls)), call_s = seconds / one.calls;
      if (i == 0) {
        first_s = call_s;
        first_least_s = first_was_short ? call_s : std::min(first_least_s, call_s);
        first_was_short = seconds < turn_s;
      }
      one.ratios.push_back(call_s / first_s);
      one.spent_s += seconds;
      if (seconds < turn_s) one.calls *= 2;
    }
    if (turn < least_turns) continue;
    for (const Score& one : all) best = std::min(best, one.median_ratio());
    for (Score& one : all) {
      one.is_in = one.is_in && (&one == &all.front() || one.median_ratio() <= far_slower * best);
      if (!one.is_in) continue;
      spent_s += one.spent_s;
      wanted_s += seconds_each;
    }
    if (spent_s >= wanted_s) break;
  }
  std::vector<double> seconds;
  for (const Score& one : all) seconds.push_back(first_least_s * one.median_ratio());
  return seconds;
}

}  // namespace fourfold::measure
