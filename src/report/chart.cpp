#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "report/axis.h"
#include "report/decimate.h"
#include "report/html_text.h"

namespace fourfold::report {
namespace {

constexpr double left = 46, right = 18, top = 10, bottom = 34;

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool is_empty() const { return least > most; }
};

std::vector<Point> finite(std::span<const Point> points) {
  std::vector<Point> result;
  std::copy_if(points.begin(), points.end(), std::back_inserter(result),
               [](const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  return result;
}

/// Places in the drawing.
class Field {
 public:
  Field(const Range& x, const AxisScale& y, const ChartForm& form)
      : x_(make_axis(x.least, x.most, 5)), y_(y), form_(form) {
    // Steps fill the width; only values end on marks.
    x_first_ = x.least;
    x_width_ = x.most > x.least ? x.most - x.least : 1;
  }

  double across(double x) const {
    return left + (x - x_first_) / x_width_ * (form_.width - left - right);
  }
  double down(double y) const { return top + (1 - y_.place(y)) * (form_.height - top - bottom); }
  int columns() const { return static_cast<int>(form_.width - left - right); }

  std::string axes(const std::string& x_name) const {
    std::string svg;
    for (const double mark : y_.marks())
      svg += format(
          "<line class=\"grid\" x1=\"{:.0f}\" y1=\"{:.1f}\" x2=\"{:.0f}\" y2=\"{:.1f}\"/>"
          "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
          left, down(mark), form_.width - right, down(mark), left - 6, down(mark) + 4,
          y_.label(mark));
    const double floor = form_.height - bottom;
    for (const double mark : x_.marks()) {
      if (mark < x_first_ || mark > x_first_ + x_width_ * 1.0001) continue;
      svg += format(
          "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.0f}\" x2=\"{:.1f}\" y2=\"{:.0f}\"/>"
          "<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
          across(mark), floor, across(mark), floor + 4, across(mark), floor + 16, x_.label(mark));
    }
    return svg + format("<text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                        form_.width - right, form_.height - 4, escaped(x_name));
  }

 private:
  AxisScale x_, y_;
  ChartForm form_;
  double x_first_ = 0, x_width_ = 1;
};

std::string polyline(const Field& field, std::span<const Point> points, int color) {
  std::string places;
  for (const Point& p : points)
    places +=
        format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", field.across(p.x), field.down(p.y));
  return format("<polyline class=\"line c{}\" points=\"{}\"/>", color, places);
}

std::string dots(const Field& field, std::span<const Point> points, int color) {
  std::string svg;
  for (const Point& p : points)
    svg += format("<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", color,
                  field.across(p.x), field.down(p.y));
  return svg;
}

/// From the least to the largest value of each column, there and back again.
std::string band(const Field& field, std::span<const Column> columns, int color) {
  std::string places;
  for (const Column& column : columns)
    places += format("{:.1f},{:.1f} ", field.across(column.x), field.down(column.most));
  for (std::size_t i = columns.size(); i-- > 0;)
    places += format("{:.1f},{:.1f} ", field.across(columns[i].x), field.down(columns[i].least));
  return format("<polygon class=\"band c{}\" points=\"{}\"/>", color, places);
}

std::string draw(const Field& field, const ChartCurve& curve, std::span<const Point> points) {
  if (static_cast<int>(points.size()) <= field.columns()) {
    constexpr std::size_t most_dots = 60;
    const bool has_dots = (curve.has_dots || points.size() == 1) && points.size() <= most_dots;
    return polyline(field, points, curve.color) +
           (has_dots ? dots(field, points, curve.color) : "");
  }
  const std::vector<Column> columns = decimate(points, field.columns());
  std::vector<Point> means;
  for (const Column& column : columns) means.push_back({column.x, column.mean});
  return band(field, columns, curve.color) + polyline(field, means, curve.color);
}

/// Whether the median of some curve would lie in the lowest twentieth of the drawing.
bool is_lopsided(const std::vector<std::vector<Point>>& curves) {
  bool result = false;
  for (const auto& points : curves) {
    std::vector<double> values;
    for (const Point& point : points) values.push_back(point.y);
    if (values.empty()) continue;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    const double median = *middle;
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    if (*least <= 0) return false;
    constexpr double flat = 20;
    result = result || *most > flat * median;
  }
  return result;
}

}  // namespace

std::string draw_chart(std::span<const ChartCurve> curves, const std::string& x_name,
                       const ChartForm& form) {
  std::vector<std::vector<Point>> points;
  Range x, y;
  for (const ChartCurve& curve : curves) {
    points.push_back(finite(curve.points));
    for (const Point& point : points.back()) {
      x.add(point.x);
      y.add(point.y);
    }
  }
  if (x.is_empty()) return {};
  const AxisScale values = form.may_be_log && is_lopsided(points)
                               ? make_log_axis(y.least, y.most, 4)
                               : make_axis(y.least, y.most, 5);
  const Field field(x, values, form);
  std::string svg = format("<svg viewBox=\"0 0 {} {}\" role=\"img\">{}", form.width, form.height,
                           field.axes(x_name));
  for (std::size_t i = 0; i < curves.size(); ++i)
    if (!points[i].empty())
      svg += format("<g><title>{}</title>{}</g>", escaped(curves[i].name),
                    draw(field, curves[i], points[i]));
  return svg + "</svg>";
}

}  // namespace fourfold::report
