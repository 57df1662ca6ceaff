// Finds the rank that computes longer than the others for many steps: a throttled core, a
// busy neighbour. Waiting is not computing: all ranks wait for a straggler.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/observer.h"

namespace fourfold::train {

class Stragglers {
 public:
  /// So much above the median of the ranks, over so many steps.
  static constexpr double most_excess = 0.05;
  static constexpr std::size_t window_steps = 50;
  /// How often the window is looked at.
  static constexpr std::size_t interval_steps = 10;

  explicit Stragglers(std::size_t ranks)
      : excess_(ranks), is_told_(ranks, false), quiet_until_(ranks, 0) {}

  /// What each rank has computed in the next step, in seconds. A text once a rank has been too slow
  /// in the middle one of the window's steps, ordered by its excess (so that neither a few slow
  /// steps nor a few good ones count). It is told again only after it has been in time, and after
  /// as many steps again as there were then: ranks that are late by turns do not fill the log.
  std::optional<std::string> look(std::span<const double> compute_s);

  /// The median and the slowest of them.
  static ComputeTimes summarize(std::span<const double> compute_s);

 private:
  std::vector<std::vector<double>> excess_;  // by rank, of the last steps; a ring
  std::vector<bool> is_told_;                // by rank
  std::vector<std::size_t> quiet_until_;     // by rank, a number of steps
  std::size_t steps_ = 0;
};

}  // namespace fourfold::train
