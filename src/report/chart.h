// Curves as an SVG drawing that stands in a page and takes its colours. Letters: curve.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/curve.h"

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

/// One curve of a chart.
struct ChartCurve {
  std::string name;
  std::span<const Point> points;  // in rising x; values that are not finite are left out
  int color = 0;                  // the class c0, c1, ... of the page
  bool has_dots = false;          // few points, each of which counts
};

/// A place on the x axis that something begins at.
struct ChartMark {
  double x = 0;
  std::string words;  // for whoever points there
  int color = 0;
};

struct ChartForm {
  int width = 400, height = 230;  // in units of the drawing, which the page scales
  /// Where the largest value is so far above most others that these would be a flat line, and all
  /// are positive, marks are powers of ten.
  bool may_be_log = false;
  /// Where a few values are far above all others, the axis ends above the others; what is beyond
  /// stands at its edge, and a line of text says how high it goes.
  bool may_clip = false;
};

/// An <svg> element with axes from the curves' own ranges. A curve with more points than columns is
/// drawn as the mean of each column, and everything from its least to its largest value is shaded.
/// Under the pointer a viewer shows the values of a place.
/// `x_name` stands below. Empty where no curve has a point. Marks are lines from top to bottom;
/// those beyond the curves are left out.
std::string draw_chart(std::span<const ChartCurve> curves, const std::string& x_name,
                       const ChartForm& form, std::span<const ChartMark> marks = {});

/// How the values of these curves are drawn, as `form` allows it: "log", "linear", or the value
/// above which nothing is shown in full.
std::string axis_of(std::span<const ChartCurve> curves, const ChartForm& form);

}  // namespace fourfold::report
