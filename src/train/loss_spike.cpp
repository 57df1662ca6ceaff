#include "train/loss_spike.h"

#include <algorithm>
#include <cmath>

namespace fourfold::train {
namespace {

/// The least spread, as a share of the median: losses that hardly differ are not told apart by
/// their last digits.
constexpr double least_sigma = 1e-3;

LossSpikes::Spike describe(std::vector<double> losses) {
  const auto count = static_cast<double>(losses.size());
  double mean = 0, square = 0;
  for (const double loss : losses) mean += loss / count;
  for (const double loss : losses) square += (loss - mean) * (loss - mean) / count;
  const auto middle = losses.begin() + static_cast<std::ptrdiff_t>(losses.size() / 2);
  std::nth_element(losses.begin(), middle, losses.end());
  return {*middle, std::max(std::sqrt(square), least_sigma * std::abs(*middle))};
}

}  // namespace

std::optional<LossSpikes::Spike> LossSpikes::look(double loss) {
  if (spec_.action == LossSpikeSpec::Action::none) return std::nullopt;
  const auto window = static_cast<std::size_t>(spec_.window);
  std::optional<Spike> found;
  if (losses_.size() < window) {
    losses_.push_back(loss);
    return std::nullopt;
  }
  const Spike usual = describe(losses_);
  if (loss > usual.median + spec_.sigmas * usual.sigma) found = usual;
  losses_[next_] = loss;
  next_ = (next_ + 1) % window;
  return found;
}

}  // namespace fourfold::train
