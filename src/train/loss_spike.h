// Tells a loss that leaps from one that wanders. Not a test for numbers that are not finite: those
// are found before the update (session.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace fourfold::train {

struct LossSpikeSpec {
  enum class Action { none, warn, stop } action = Action::none;
  double sigmas = 6;
  std::int64_t window = 100;  // steps
  bool operator==(const LossSpikeSpec&) const = default;
};

class LossSpikes {
 public:
  explicit LossSpikes(const LossSpikeSpec& spec) : spec_(spec) {}

  /// What the loss was held against.
  struct Spike {
    double median = 0, sigma = 0;  // of the window
  };
  /// The loss of the next step. A spike is above median + sigmas x standard deviation (a
  /// thousandth of the median at least) of the window's steps, which lie before it; none before the
  /// window is full. The loss then belongs to the window, so that a level that stays is told once
  /// or a few times. Cost: the window is sorted.
  std::optional<Spike> look(double loss);

 private:
  LossSpikeSpec spec_;
  std::vector<double> losses_;  // a ring once it is full
  std::size_t next_ = 0;
};

}  // namespace fourfold::train
