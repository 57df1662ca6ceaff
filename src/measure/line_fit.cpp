#include "measure/line_fit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace fourfold::measure {

LineFit fit_line(std::span<const TimedBytes> samples) {
  // Sums of the normal equations; a sample's weight is 1 / time^2.
  double w = 0, wn = 0, wnn = 0, wt = 0, wnt = 0;
  for (const TimedBytes& sample : samples) {
    require(sample.seconds > 0 && sample.bytes > 0, "an exchange has bytes and takes time");
    const double weight = 1 / (sample.seconds * sample.seconds);
    w += weight;
    wn += weight * sample.bytes;
    wnn += weight * sample.bytes * sample.bytes;
    wt += weight * sample.seconds;
    wnt += weight * sample.bytes * sample.seconds;
  }
  const double determinant = w * wnn - wn * wn;
  require(determinant > 0, "exchanges of several sizes are timed");
  double latency = (wt * wnn - wnt * wn) / determinant;
  double seconds_per_byte = (w * wnt - wn * wt) / determinant;
  if (latency < 0 || seconds_per_byte <= 0) {
    latency = 0;
    seconds_per_byte = wnt / wnn;
  }
  LineFit fit{latency, 1 / seconds_per_byte, 0};
  for (const TimedBytes& sample : samples)
    fit.worst_error =
        std::max(fit.worst_error, std::abs(fit.seconds(sample.bytes) / sample.seconds - 1));
  return fit;
}

}  // namespace fourfold::measure
