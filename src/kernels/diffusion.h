// What the rows of diffusion models compute for one time or one element, written once for all
// backends; op/diffusion.h says what each means. In double: a sample has few elements, and the
// bound is made of differences of numbers that are close.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/on_device.h"
#include "kernels/pixels.h"
#include "kernels/step_elements.h"
#include "op/table.h"

namespace fourfold::kernels {

/// A row of a schedule, as op::DiffusionSchedule lists its columns.
struct ScheduleRow {
  double signal, noise, of_start, of_noised, log_variance, log_beta, time;
};
static_assert(sizeof(ScheduleRow) == op::DiffusionSchedule::columns * sizeof(double));

/// Walks along the used times of a schedule.
class ScheduleWalk {
 public:
  FOURFOLD_CUDA explicit ScheduleWalk(const op::DiffusionSchedule& op) : op_(op) {}

  /// To the first time, or from one to the next.
  FOURFOLD_CUDA void advance() {
    before_ = abar_;
    ++index_;
    for (; next_ <= time(); ++next_) abar_ = op_.cosine ? cosine_abar(next_) : linear_abar(next_);
  }

  FOURFOLD_CUDA ScheduleRow row() const {
    ScheduleRow row{};
    row.signal = std::sqrt(abar_);
    row.noise = std::sqrt(1 - abar_);
    row.of_start = beta() * std::sqrt(before_) / (1 - abar_);
    row.of_noised = (1 - before_) * std::sqrt(1 - beta()) / (1 - abar_);
    row.log_beta = std::log(beta());
    row.log_variance = index_ > 0 ? log_variance() : row.log_beta;
    row.time = static_cast<double>(time());
    if (index_ == 0 && op_.used > 1) {
      ScheduleWalk second = *this;
      second.advance();
      row.log_variance = second.log_variance();
    }
    return row;
  }

 private:
  FOURFOLD_CUDA std::int64_t time() const {
    const std::int64_t gaps = op_.used - 1;
    return gaps == 0 ? op_.steps - 1 : (2 * index_ * (op_.steps - 1) + gaps) / (2 * gaps);
  }
  FOURFOLD_CUDA double beta() const { return 1 - abar_ / before_; }
  FOURFOLD_CUDA double log_variance() const {
    return std::log(beta() * (1 - before_) / (1 - abar_));
  }

  FOURFOLD_CUDA double linear_abar(std::int64_t t) const {
    const auto steps = static_cast<double>(op_.steps);
    const double place = op_.steps > 1 ? static_cast<double>(t) / (steps - 1) : 0;
    return abar_ * (1 - std::fmin((0.1 + (20 - 0.1) * place) / steps, most_beta));
  }
  FOURFOLD_CUDA double cosine_abar(std::int64_t t) const {
    const auto squared_cosine = [&](std::int64_t at) {
      const double part = static_cast<double>(at) / static_cast<double>(op_.steps);
      const double cosine = std::cos((part + 0.008) / 1.008 * 1.5707963267948966);
      return cosine * cosine;
    };
    // f falls to 0 at the end alone, so that the last beta is the one that is bounded.
    if (t == op_.steps - 1) return (t == 0 ? 1 : cosine_abar(t - 1)) * (1 - most_beta);
    return squared_cosine(t + 1) / squared_cosine(0);
  }

  static constexpr double most_beta = 0.999;
  op::DiffusionSchedule op_;
  std::int64_t index_ = -1, next_ = 0;
  double before_ = 1, abar_ = 1;
};

/// What op::DrawTimes does for one sample, as plain data.
struct TimeDraw {
  RandomStream stream;
  std::int64_t steps;
  op::SampleWindow window;

  explicit TimeDraw(const op::DrawTimes& op)
      : stream(op.stream), steps(op.steps), window(op.window) {}
  TimeDraw(const op::DrawTimesByLoss& op, std::int64_t times)
      : stream(op.stream), steps(times), window(op.window) {}

  /// The time of a local sample.
  FOURFOLD_CUDA std::int32_t time(std::uint64_t seed, std::int64_t step, std::int64_t first_sample,
                                  std::int64_t sample) const {
    const auto words =
        Random(seed, stream)
            .words(static_cast<std::uint64_t>(first_sample) + global_sample(window, sample),
                   static_cast<std::uint32_t>(step));
    // Multiply and shift, as Random::below does, for a bound of at most 31 bits.
    const auto bound = static_cast<std::uint64_t>(steps);
    const std::uint64_t low = bound * words[0] >> 32;
    return static_cast<std::int32_t>((bound * words[1] + low) >> 32);
  }

  /// A number from 0 to 1 in place of it, from the same words.
  FOURFOLD_CUDA double unit(std::uint64_t seed, std::int64_t step, std::int64_t first_sample,
                            std::int64_t sample) const {
    return Random(seed, stream)
        .uniform(static_cast<std::uint64_t>(first_sample) + global_sample(window, sample),
                 static_cast<std::uint32_t>(step));
  }
};

/// The rows of op::KeepLosses: how many entries, the root of their mean, the entries.
template <class S>
struct LossesOfTimes {
  S* losses;
  std::int64_t times, columns;

  FOURFOLD_CUDA std::int64_t entries() const { return columns - 2; }
  FOURFOLD_CUDA bool is_full(std::int64_t t) const {
    return losses[t * columns] >= static_cast<S>(entries());
  }
  FOURFOLD_CUDA double importance(std::int64_t t) const {
    return static_cast<double>(losses[t * columns + 1]);
  }
  /// The probability of a time, `total` being the sum of what all are worth.
  FOURFOLD_CUDA double probability(std::int64_t t, double total) const {
    constexpr double even = op::DrawTimesByLoss::even_share;
    const double each = 1 / static_cast<double>(times);
    return total > 0 ? even * each + (1 - even) * importance(t) / total : each;
  }
  /// Enters the mean of `count` squared losses, of which `sum` is the sum.
  FOURFOLD_CUDA void enter(std::int64_t t, double sum, double count) const {
    S* const row = losses + t * columns;
    S* const entry = row + 2;
    for (std::int64_t i = entries() - 1; i > 0; --i) entry[i] = entry[i - 1];
    entry[0] = static_cast<S>(sum / count);
    if (!is_full(t)) row[0] += 1;
    const auto known = static_cast<std::int64_t>(row[0]);
    double squares = 0;
    for (std::int64_t i = 0; i < known; ++i) squares += static_cast<double>(entry[i]);
    row[1] = static_cast<S>(std::sqrt(squares / static_cast<double>(known)));
  }
};

/// One element of a picture with what the model says of it.
struct NoisedElement {
  double predicted_noise, variance_output, x_0, x_t;
};

/// A value between -1 and 1. NaN and infinities stay as they are, so that a model that gives them
/// is seen: std::fmax would turn NaN into -1, the value of a dark pixel.
FOURFOLD_CUDA inline double kept_within_one(double x) {
  if (!std::isfinite(x)) return x;
  return std::fmin(std::fmax(x, -1.0), 1.0);
}

/// The start that a predicted noise means.
FOURFOLD_CUDA inline double predicted_start(const ScheduleRow& at, double x_t, double noise) {
  return (x_t - at.noise * noise) / at.signal;
}

/// The logarithm of the model's variance: between the two that frame it where `learned`.
FOURFOLD_CUDA inline double model_log_variance(const ScheduleRow& at, bool learned, double output) {
  const double part = (output + 1) / 2;
  return learned ? part * at.log_beta + (1 - part) * at.log_variance : at.log_variance;
}

/// The distribution function of a normal variable and its derivative, by the approximation with
/// tanh that Nichol, Dhariwal 2021 use.
struct NormalBelow {
  double probability, density;
  FOURFOLD_CUDA explicit NormalBelow(double x) {
    constexpr double scale = 0.7978845608028654, cubic = 0.044715;  // sqrt(2 / pi)
    const double tanh = std::tanh(scale * (x + cubic * x * x * x));
    probability = 0.5 * (1 + tanh);
    density = 0.5 * (1 - tanh * tanh) * scale * (1 + 3 * cubic * x * x);
  }
};

/// A number and its derivative by the logarithm of the model's variance, or by the output that says
/// it.
struct BoundTerm {
  double value, derivative;
};

/// Minus the logarithm of the probability of x_0 among 256 levels.
FOURFOLD_CUDA inline BoundTerm level_term(double x_0, double mean, double log_variance) {
  constexpr double half_level = 1.0 / 255, least = 1e-12, end = 0.999;
  const double inverse = std::exp(-0.5 * log_variance);
  const double above = inverse * (x_0 - mean + half_level);
  const double below = inverse * (x_0 - mean - half_level);
  const NormalBelow to_above(above), to_below(below);
  // d(bound) / d(log variance) = -bound / 2 for either bound.
  double probability = to_above.probability - to_below.probability;
  double derivative = -0.5 * (to_above.density * above - to_below.density * below);
  if (x_0 < -end) {
    probability = to_above.probability;
    derivative = -0.5 * to_above.density * above;
  } else if (x_0 > end) {
    probability = 1 - to_below.probability;
    derivative = 0.5 * to_below.density * below;
  }
  const bool is_bounded = probability < least;
  return {-std::log(is_bounded ? least : probability), is_bounded ? 0 : -derivative / probability};
}

/// The divergence of the model's step from the true one.
FOURFOLD_CUDA inline BoundTerm step_term(double true_log_variance, double log_variance,
                                         double difference) {
  const double ratio = std::exp(true_log_variance - log_variance);
  const double distance = difference * difference * std::exp(-log_variance);
  return {0.5 * (-1 + log_variance - true_log_variance + ratio + distance),
          0.5 * (1 - ratio - distance)};
}

constexpr double bits = 1.4426950408889634;  // 1 / log 2

/// What one element adds to L_t, in bits, and the derivative by the model's output for the
/// variance.
FOURFOLD_CUDA inline BoundTerm bound_term(const ScheduleRow& at, bool is_first, bool learned,
                                          bool whole, const NoisedElement& x) {
  double start = predicted_start(at, x.x_t, x.predicted_noise);
  if (whole) start = kept_within_one(start);
  const double log_variance = model_log_variance(at, learned, x.variance_output);
  const double mean = at.of_start * start + at.of_noised * x.x_t;
  const BoundTerm term =
      is_first ? level_term(x.x_0, mean, log_variance)
               : step_term(at.log_variance, log_variance, at.of_start * (x.x_0 - start));
  const double by_output = learned ? (at.log_beta - at.log_variance) / 2 : 0;
  return {bits * term.value, bits * term.derivative * by_output};
}

/// What x_T tells of one element, in bits: its divergence from a standard normal variable.
FOURFOLD_CUDA inline double prior_term(const ScheduleRow& last, double x_0) {
  const double variance = last.noise * last.noise, mean = last.signal * x_0;
  return bits * 0.5 * (variance + mean * mean - 1 - std::log(variance));
}

/// What the rows of the loss read, for the elements of one sample.
template <class T>
struct LossSample {
  const T *output, *x_0, *x_t, *e;  // of the whole tensors
  std::int64_t sample;
  PixelSizes sizes;  // of x_0
  bool learned, whole, is_first, is_last;
  ScheduleRow at;

  FOURFOLD_CUDA std::int64_t elements() const { return sizes.pixels * sizes.channels; }
  /// Where the predicted noise of element i of the sample stands in `output`; what it says of the
  /// variance stands sizes.channels after it.
  FOURFOLD_CUDA std::int64_t output_place(std::int64_t i) const {
    const std::int64_t pixel = sample * sizes.pixels + i / sizes.channels;
    return pixel * sizes.channels * (learned ? 2 : 1) + i % sizes.channels;
  }
  /// `read(element)` is its value in double.
  template <class Read>
  FOURFOLD_CUDA NoisedElement element(std::int64_t i, Read read) const {
    const std::int64_t place = output_place(i), own = sample * elements() + i;
    return {read(output[place]), learned ? read(output[place + sizes.channels]) : 0, read(x_0[own]),
            read(x_t[own])};
  }
  /// What element i adds to the loss, before the mean.
  template <class Read>
  FOURFOLD_CUDA double loss(std::int64_t i, double simple, double bound, Read read) const {
    const NoisedElement x = element(i, read);
    const double error = read(e[sample * elements() + i]) - x.predicted_noise;
    double loss = simple * error * error;
    if (bound != 0) {
      loss += bound * bound_term(at, is_first, learned, whole, x).value;
      if (whole && is_last) loss += bound * prior_term(at, x.x_0);
    }
    return loss;
  }
  /// What op::DiffusionLossGradient gives for the two numbers of element i.
  struct Gradient {
    double by_noise, by_variance;
  };
  template <class Read>
  FOURFOLD_CUDA Gradient gradient(std::int64_t i, const op::DiffusionLossGradient& op,
                                  bool is_valid, Read read) const {
    if (!is_valid) return {0, 0};
    const NoisedElement x = element(i, read);
    const double scale = op.scale / static_cast<double>(elements());
    const double error = x.predicted_noise - read(e[sample * elements() + i]);
    const bool has_bound = learned && op.bound != 0;
    return {
        2 * scale * op.simple * error,
        has_bound ? scale * op.bound * bound_term(at, is_first, learned, whole, x).derivative : 0};
  }
};

/// What op::Denoise does with one element, as plain data.
struct DenoiseStep {
  bool learned, implicit;
  double eta;

  explicit DenoiseStep(const op::Denoise& op)
      : learned(op.learned), implicit(op.implicit), eta(op.eta) {}

  /// x at the time before; `row` is the schedule's, after that of the time before but where it
  /// `is_first`.
  FOURFOLD_CUDA double next(const ScheduleRow* row, bool is_first, double x, double predicted_noise,
                            double variance_output, double z) const {
    const ScheduleRow& at = *row;
    const double start = kept_within_one(predicted_start(at, x, predicted_noise));
    if (!implicit) {
      const double mean = at.of_start * start + at.of_noised * x;
      if (is_first) return mean;
      return mean + std::exp(0.5 * model_log_variance(at, learned, variance_output)) * z;
    }
    const double signal = is_first ? 1 : row[-1].signal, noise = is_first ? 0 : row[-1].noise;
    const double ratio = at.signal / signal;
    const double deviation = eta * noise / at.noise * std::sqrt(std::fmax(0.0, 1 - ratio * ratio));
    const double left = (x - at.signal * start) / at.noise;
    return signal * start +
           std::sqrt(std::fmax(0.0, noise * noise - deviation * deviation)) * left + deviation * z;
  }
};

}  // namespace fourfold::kernels
