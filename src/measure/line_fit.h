// The time of an exchange as a line over its bytes: latency + bytes / rate. Pure.
#pragma once

#include <span>

namespace fourfold::measure {

struct TimedBytes {
  double bytes = 0, seconds = 0;
};

struct LineFit {
  double latency_s = 0, bytes_per_s = 0;
  double worst_error = 0;  // of a sample: |line - time| / time

  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};

/// Least squares of relative errors, so that small exchanges count as much as large ones: of
/// (time - line) / line, reached by steps whose weights come from the line before. The latency is
/// not negative; where times do not grow with bytes the line begins at 0. Requires two samples of
/// different sizes and times above 0.
LineFit fit_line(std::span<const TimedBytes> samples);

}  // namespace fourfold::measure
