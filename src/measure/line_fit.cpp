#include "measure/line_fit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace fourfold::measure {

namespace {

/// Squares of (time - line) / scale are least, where `scale` is what a time is compared with.
template <class Scale>
LineFit weighted_line(std::span<const TimedBytes> samples, Scale scale) {
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;  // sums of the normal equations
  for (const TimedBytes& sample : samples) {
    const double weight = 1 / (scale(sample) * scale(sample));
    w += weight;
    wn += weight * sample.bytes;
    wnn += weight * sample.bytes * sample.bytes;
    wt += weight * sample.seconds;
    wnt += weight * sample.bytes * sample.seconds;
  }
  const double determinant = w * wnn - wn * wn;
  require(determinant > 0, "exchanges of several sizes are timed");
  const double latency = (wt * wnn - wnt * wn) / determinant;
  const double seconds_per_byte = (w * wnt - wn * wt) / determinant;
  if (latency < 0 || seconds_per_byte <= 0) return {0, wnn / wnt, 0};
  return {latency, 1 / seconds_per_byte, 0};
}

}  // namespace

LineFit fit_line(std::span<const TimedBytes> samples) {
  for (const TimedBytes& sample : samples)
    require(sample.seconds > 0 && sample.bytes > 0, "an exchange has bytes and takes time");
  LineFit fit = weighted_line(samples, [](const TimedBytes& sample) { return sample.seconds; });
  // A share of the time itself forgives a line far below it, and nothing above: weights by the line
  // treat both alike. A few steps settle it.
  constexpr int steps = 20;
  for (int step = 0; step < steps; ++step)
    fit =
        weighted_line(samples, [&](const TimedBytes& sample) { return fit.seconds(sample.bytes); });
  for (const TimedBytes& sample : samples)
    fit.worst_error =
        std::max(fit.worst_error, std::abs(fit.seconds(sample.bytes) / sample.seconds - 1));
  return fit;
}

}  // namespace fourfold::measure
