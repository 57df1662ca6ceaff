// Where the marks of an axis stand, and what is written there.
#pragma once

#include <string>
#include <vector>

namespace fourfold::report {

/// An axis from `least` to `most`, which contain what was asked for and end on marks, or a bit
/// beyond.
struct AxisScale {
  double least = 0, most = 1;
  double step = 1;      // between marks
  bool is_log = false;  // all three are powers of ten

  /// As values, not as powers.
  std::vector<double> marks() const;
  /// The text of a mark: "0.25", "12k", "3e-4". All marks of an axis have the same form.
  std::string label(double mark) const;
  /// In [0, 1] for what lies on the axis.
  double place(double value) const;
};

/// About `wanted` marks at multiples of 1, 2 or 5 times a power of ten. Equal ends are widened.
/// Requires finite numbers.
AxisScale make_axis(double least, double most, int wanted);
/// The same with marks at powers of ten. Requires numbers above 0.
AxisScale make_log_axis(double least, double most, int wanted);

}  // namespace fourfold::report
