#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace fourfold::model {
namespace {

constexpr double two_pi = 2 * std::numbers::pi;

/// Between the frequency and the one divided by the factor: `keep` of the first.
double blended(double frequency, double factor, double keep) {
  return (1 - keep) * frequency / factor + keep * frequency;
}

double llama3(const RopeSpec& rope, double frequency) {
  // How often the frequency turns within the positions of the training.
  const double turns = frequency * static_cast<double>(rope.original_positions) / two_pi;
  if (turns > rope.high_freq_factor) return frequency;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  return blended(frequency, rope.factor,
                 (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor));
}

/// The pair, as a real number, that turns so often within the positions of the training.
double pair_of_turns(const RopeSpec& rope, double width, double turns) {
  return width * std::log(static_cast<double>(rope.original_positions) / (turns * two_pi)) /
         (2 * std::log(rope.theta));
}

double yarn(const RopeSpec& rope, double width, double pair, double frequency) {
  double low = pair_of_turns(rope, width, rope.beta_fast),
         high = pair_of_turns(rope, width, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  return blended(frequency, rope.factor, 1 - std::clamp((pair - low) / (high - low), 0.0, 1.0));
}

}  // namespace

std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t width) {
  require(width % 2 == 0, "a head that is turned has pairs of elements");
  std::vector<double> frequencies;
  const auto elements = static_cast<double>(width);
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const auto pair = static_cast<double>(i);
    const double frequency = std::pow(rope.theta, -2 * pair / elements);
    switch (rope.kind) {
      case RopeKind::plain:
        frequencies.push_back(frequency);
        break;
      case RopeKind::linear:
        frequencies.push_back(frequency / rope.factor);
        break;
      case RopeKind::llama3:
        frequencies.push_back(llama3(rope, frequency));
        break;
      case RopeKind::yarn:
        frequencies.push_back(yarn(rope, elements, pair, frequency));
        break;
    }
  }
  return frequencies;
}

double rope_factor(const RopeSpec& rope) {
  if (rope.kind != RopeKind::yarn) return 1;
  if (rope.attention_factor > 0) return rope.attention_factor;
  return rope.factor <= 1 ? 1 : 0.1 * std::log(rope.factor) + 1;
}

}  // namespace fourfold::model
