#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "report/decimate.h"
#include "report/html_text.h"

namespace fourfold::report {
namespace {

constexpr double left = 46, right = 18, top = 10, bottom = 34;

struct Extent {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool is_empty() const { return least > most; }
};

/// Places in the drawing.
class Drawing {
 public:
  Drawing(const Extent& x, const AxisScale& y, const ChartForm& form)
      : x_(make_axis(x.least, x.most, 5)), y_(y), form_(form) {
    // Steps fill the width; only values end on marks.
    x_first_ = x.least;
    x_width_ = x.most > x.least ? x.most - x.least : 1;
  }

  double across(double x) const {
    return left + (x - x_first_) / x_width_ * (form_.width - left - right);
  }
  /// What lies beyond the axis stands at its edge.
  double down(double y) const {
    return top + (1 - std::clamp(y_.place(y), 0., 1.)) * (form_.height - top - bottom);
  }
  /// A strip from top to bottom, with words for whoever points there.
  std::string strip(double first, double last, const std::string& words) const {
    return format(
        "<rect class=\"strip\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\">"
        "<title>{}</title></rect>",
        first, top, std::max(last - first, 0.5), form_.height - top - bottom, words);
  }
  bool has(double x) const { return x >= x_first_ && x <= x_first_ + x_width_; }
  std::string mark(const ChartMark& mark) const {
    const double x = across(mark.x);
    return format(
        "<line class=\"mark c{}\" x1=\"{:.1f}\" y1=\"{:.0f}\" x2=\"{:.1f}\" y2=\"{:.0f}\">"
        "<title>{}</title></line>",
        mark.color, x, top, x, form_.height - bottom, escaped(mark.words));
  }
  double left_edge() const { return left; }
  double right_edge() const { return form_.width - right; }
  /// Above the curves, at the right.
  std::string remark(const std::string& words) const {
    return format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>", right_edge(),
                  top + 8, words);
  }
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

std::string polyline(const Drawing& field, std::span<const Point> points, int color) {
  std::string places;
  for (const Point& p : points)
    places +=
        format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", field.across(p.x), field.down(p.y));
  return format("<polyline class=\"line c{}\" points=\"{}\"/>", color, places);
}

std::string dots(const Drawing& field, std::span<const Point> points, int color) {
  std::string svg;
  for (const Point& p : points)
    svg += format("<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", color,
                  field.across(p.x), field.down(p.y));
  return svg;
}

/// From the least to the largest value of each column, there and back again.
std::string band(const Drawing& field, std::span<const Column> columns, int color) {
  std::string places;
  for (const Column& column : columns)
    places += format("{:.1f},{:.1f} ", field.across(column.x), field.down(column.most));
  for (std::size_t i = columns.size(); i-- > 0;)
    places += format("{:.1f},{:.1f} ", field.across(columns[i].x), field.down(columns[i].least));
  return format("<polygon class=\"band c{}\" points=\"{}\"/>", color, places);
}

std::string draw(const Drawing& field, const ChartCurve& curve, std::span<const Point> points) {
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

/// Where the axis ends so that a few values far above all others do not flatten these: none where
/// there are no such values.
std::optional<double> clipped_end(const std::vector<std::vector<Point>>& curves) {
  std::vector<double> values;
  for (const auto& points : curves)
    for (const Point& point : points) values.push_back(point.y);
  constexpr std::size_t least_points = 20;
  if (values.size() < least_points) return std::nullopt;
  std::sort(values.begin(), values.end());
  // Some values in a hundred, and at least one, may stand out.
  const double usual = values[values.size() - 1 - std::max<std::size_t>(values.size() / 50, 1)],
               range = usual - values.front();
  constexpr double far = 2;
  if (values.back() - values.front() <= far * range || range <= 0) return std::nullopt;
  return usual + 0.1 * range;
}

/// The values of all curves by places across, for whoever points there.
std::string strips(const Drawing& field, std::span<const ChartCurve> curves,
                   const std::vector<std::vector<Point>>& points, const std::string& x_name) {
  constexpr int most_strips = 120;
  std::vector<std::vector<Column>> columns;
  std::size_t longest = 0;
  for (const auto& each : points) {
    columns.push_back(decimate(each, most_strips));
    if (columns.back().size() > columns[longest].size()) longest = columns.size() - 1;
  }
  std::string svg;
  const auto& at = columns[longest];
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double here = field.across(at[i].x);
    const double first = i == 0 ? field.left_edge() : (field.across(at[i - 1].x) + here) / 2,
                 last = i + 1 == at.size() ? field.right_edge()
                                           : (here + field.across(at[i + 1].x)) / 2;
    std::string words = format("{} {:.6g}", x_name, at[i].x);
    for (std::size_t curve = 0; curve < curves.size(); ++curve) {
      const auto near = std::min_element(columns[curve].begin(), columns[curve].end(),
                                         [&](const Column& a, const Column& b) {
                                           return std::abs(a.x - at[i].x) < std::abs(b.x - at[i].x);
                                         });
      if (near == columns[curve].end()) continue;
      const double x = field.across(near->x);
      if (x < first - 0.5 || x > last + 0.5) continue;
      words += format("\n{}: {:.5g}", curves[curve].name, near->mean);
      if (near->most > near->least) words += format(" ({:.5g} to {:.5g})", near->least, near->most);
    }
    svg += field.strip(first, last, escaped(words));
  }
  return svg;
}

/// True if the median of some curve would lie in the lowest twentieth of the drawing.
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

std::string axis_of(std::span<const ChartCurve> curves, const ChartForm& form) {
  std::vector<std::vector<Point>> points;
  for (const ChartCurve& curve : curves) points.push_back(finite(curve.points));
  if (form.may_clip)
    if (const auto end = clipped_end(points)) return format("{:.6g}", *end);
  return form.may_be_log && is_lopsided(points) ? "log" : "linear";
}

std::string draw_chart(std::span<const ChartCurve> curves, const std::string& x_name,
                       const ChartForm& form, std::span<const ChartMark> marks) {
  std::vector<std::vector<Point>> points;
  Extent x, y;
  for (const ChartCurve& curve : curves) {
    points.push_back(finite(curve.points));
    for (const Point& point : points.back()) {
      x.add(point.x);
      y.add(point.y);
    }
  }
  if (x.is_empty()) return {};
  const auto clipped = form.may_clip ? clipped_end(points) : std::nullopt;
  const AxisScale values = clipped ? make_axis(y.least, *clipped, 5)
                           : form.may_be_log && is_lopsided(points)
                               ? make_log_axis(y.least, y.most, 4)
                               : make_axis(y.least, y.most, 5);
  const Drawing field(x, values, form);
  std::string svg = format("<svg viewBox=\"0 0 {} {}\" role=\"img\">{}", form.width, form.height,
                           field.axes(x_name));
  for (std::size_t i = 0; i < curves.size(); ++i)
    if (!points[i].empty())
      svg += format("<g><title>{}</title>{}</g>", escaped(curves[i].name),
                    draw(field, curves[i], points[i]));
  if (clipped) svg += field.remark(format("up to {:.4g}", y.most));
  svg += strips(field, curves, points, x_name);
  for (const ChartMark& mark : marks)
    if (field.has(mark.x)) svg += field.mark(mark);
  return svg + "</svg>";
}

AxisScale make_axis(double least, double most, int wanted) {
  require(std::isfinite(least) && std::isfinite(most) && wanted >= 1,
          "an axis has finite ends and marks");
  if (!(most > least)) {
    const double margin = least == 0 ? 1 : std::abs(least) * 0.1;
    least -= margin;
    most += margin;
  }
  const double rough = (most - least) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1., 2., 5.})
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  return {std::floor(least / step + 1e-9) * step, std::ceil(most / step - 1e-9) * step, step};
}

AxisScale make_log_axis(double least, double most, int wanted) {
  require(std::isfinite(most) && least > 0 && wanted >= 1 && most >= least,
          "an axis of powers has positive ends and marks");
  AxisScale axis{std::floor(std::log10(least)), std::ceil(std::log10(most)), 1, true};
  if (axis.most == axis.least) ++axis.most;
  axis.step = std::ceil((axis.most - axis.least) / wanted);
  return axis;
}

double AxisScale::place(double value) const {
  return ((is_log ? std::log10(value) : value) - least) / (most - least);
}

std::vector<double> AxisScale::marks() const {
  std::vector<double> result;
  const auto count = static_cast<int>(std::lround((most - least) / step));
  for (int i = 0; i <= count; ++i) {
    const double mark = least + i * step;
    if (is_log && mark <= most) result.push_back(std::pow(10, mark));
    if (is_log) continue;
    result.push_back(std::abs(mark) < step * 1e-6 ? 0 : mark);
  }
  return result;
}

std::string AxisScale::label(double mark) const {
  const double size = std::max(std::abs(least), std::abs(most));
  if (is_log) return format("{:.3g}", mark);
  if (mark == 0) return "0";
  if (size < 1e-2) return format("{:.3g}", mark);
  struct Unit {
    double size;
    const char* suffix;
  };
  for (const Unit unit : {Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e4, "k"}}) {
    if (size < unit.size) continue;
    const double divisor = unit.size == 1e4 ? 1e3 : unit.size;
    const int digits = step / divisor >= 1 ? 0 : step / divisor >= 0.1 ? 1 : 2;
    return format("{:.{}f}{}", mark / divisor, digits, unit.suffix);
  }
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return format("{:.{}f}", mark, digits);
}

}  // namespace fourfold::report
