#include "report/curve.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/format.h"

namespace fourfold::report {
namespace {

constexpr int label_columns = 8;  // of the y axis: a number and a blank

/// Least and largest of what is drawn.
struct Range {
  double least, most;
  /// In [0, 1].
  double place(double value) const {
    return most > least ? std::clamp((value - least) / (most - least), 0., 1.) : 0.5;
  }
};

/// Dots in a field of letters. A letter of Braille has 2 x 4 of them (U+2800 and a bit for each, in
/// Unicode's order), one of ASCII 1.
class DotField {
 public:
  DotField(int columns, int rows, bool is_unicode)
      : columns_(columns),
        rows_(rows),
        is_unicode_(is_unicode),
        dots_(static_cast<std::size_t>(columns * rows), 0),
        marks_(dots_.size(), false) {}

  int width() const { return is_unicode_ ? 2 * columns_ : columns_; }
  int height() const { return is_unicode_ ? 4 * rows_ : rows_; }

  /// y counts from the top.
  void set(int x, int y) {
    constexpr unsigned bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (is_unicode_)
      dots_[cell(x / 2, y / 4)] |= bits[y % 4][x % 2];
    else
      dots_[cell(x, y)] = 1;
  }
  void mark(int x, int y) { marks_[is_unicode_ ? cell(x / 2, y / 4) : cell(x, y)] = true; }

  std::string row(int y) const {
    std::string text;
    for (int x = 0; x < columns_; ++x) text += letter(cell(x, y));
    return text;
  }

 private:
  std::size_t cell(int x, int y) const { return static_cast<std::size_t>(y * columns_ + x); }

  std::string letter(std::size_t at) const {
    if (marks_[at]) return is_unicode_ ? "●" : "o";
    if (dots_[at] == 0) return " ";
    if (!is_unicode_) return "*";
    // U+2800 + dots in UTF-8.
    return {static_cast<char>(0xE2), static_cast<char>(0xA0U | (dots_[at] >> 6)),
            static_cast<char>(0x80U | (dots_[at] & 0x3FU))};
  }

  int columns_, rows_;
  bool is_unicode_;
  std::vector<unsigned> dots_;
  std::vector<bool> marks_;
};

Range range_of(std::span<const Point> points, double Point::* member) {
  const auto [least, most] =
      std::minmax_element(points.begin(), points.end(),
                          [&](const Point& a, const Point& b) { return a.*member < b.*member; });
  return {(*least).*member, (*most).*member};
}

int place(const Range& range, double value, int size) {
  return static_cast<int>(std::lround(range.place(value) * (size - 1)));
}

/// Joins the mean of each column of dots to that of the column before.
void draw(DotField& field, std::span<const Point> curve, const Range& x, const Range& y) {
  std::vector<double> sums(static_cast<std::size_t>(field.width()), 0);
  std::vector<int> counts(sums.size(), 0);
  for (const Point& point : curve) {
    const auto column = static_cast<std::size_t>(place(x, point.x, field.width()));
    sums[column] += point.y;
    ++counts[column];
  }
  std::optional<std::pair<int, int>> before;
  for (std::size_t column = 0; column < sums.size(); ++column) {
    if (counts[column] == 0) continue;
    const int at = static_cast<int>(column);
    const int height = field.height() - 1 - place(y, sums[column] / counts[column], field.height());
    const auto [from_x, from_y] = before.value_or(std::pair(at, height));
    const int length = std::max(at - from_x, std::abs(height - from_y));
    for (int i = 0; i <= length; ++i)
      field.set(length == 0 ? at : from_x + (at - from_x) * i / length,
                length == 0 ? height : from_y + (height - from_y) * i / length);
    before = {at, height};
  }
}

/// As exact as the label's columns allow.
std::string axis_number(double value) {
  std::string text = format("{:.4g}", value);
  for (int digits = 3; digits > 0 && text.size() >= label_columns; --digits)
    text = format("{:.{}g}", value, digits);
  return text;
}

/// The numbers at the two ends of the x axis.
std::string x_labels(const Range& x, int columns) {
  const std::string least = axis_number(x.least), most = format("{:.0f}", x.most);
  const int gap = columns - static_cast<int>(least.size() + most.size());
  return format("{:{}} {}{:{}}{}\n", "", label_columns, least, "", std::max(1, gap), most);
}

}  // namespace

std::vector<Point> finite(std::span<const Point> points) {
  std::vector<Point> result;
  std::copy_if(points.begin(), points.end(), std::back_inserter(result),
               [](const Point& p) { return std::isfinite(p.x) && std::isfinite(p.y); });
  return result;
}

void Series::add(Point point) {
  if (groups_.empty() || groups_.back().count == group_size_) {
    if (groups_.size() == most) {
      for (std::size_t i = 0; i < most / 2; ++i) {
        const Sum& a = groups_[2 * i];
        const Sum& b = groups_[2 * i + 1];
        groups_[i] = {{a.sum.x + b.sum.x, a.sum.y + b.sum.y}, a.count + b.count};
      }
      groups_.resize(most / 2);
      group_size_ *= 2;
    }
    groups_.emplace_back();
  }
  Sum& last = groups_.back();
  last.sum.x += point.x;
  last.sum.y += point.y;
  ++last.count;
}

std::vector<Point> Series::points() const {
  std::vector<Point> result;
  for (const Sum& group : groups_) {
    const auto count = static_cast<double>(group.count);
    result.push_back({group.sum.x / count, group.sum.y / count});
  }
  return result;
}

std::string draw_curve(std::span<const Point> curve, std::span<const Point> marks,
                       const CurveSize& size) {
  const int columns = size.columns - label_columns - 1, rows = size.rows - 2;
  const std::vector<Point> line = finite(curve), points = finite(marks);
  if (line.size() < 2 || columns < 10 || rows < 3) return {};
  std::vector<Point> all = line;
  all.insert(all.end(), points.begin(), points.end());
  const Range x = range_of(all, &Point::x), y = range_of(all, &Point::y);
  DotField field(columns, rows, size.is_unicode);
  draw(field, line, x, y);
  for (const Point& point : points)
    field.mark(place(x, point.x, field.width()),
               field.height() - 1 - place(y, point.y, field.height()));
  std::string text;
  for (int row = 0; row < rows; ++row) {
    const bool has_label = row == 0 || row == rows - 1 || row == rows / 2;
    const double value = y.most - (y.most - y.least) * row / (rows - 1);
    std::string content = field.row(row);
    while (content.ends_with(' ')) content.pop_back();
    text += format("{:>{}} {}{}\n", has_label ? axis_number(value) : "", label_columns - 1,
                   size.is_unicode ? (has_label ? "┤" : "│") : (has_label ? "+" : "|"), content);
  }
  text += format("{:{}}", "", label_columns) + (size.is_unicode ? "└" : "+");
  for (int i = 0; i < columns; ++i) text += size.is_unicode ? "─" : "-";
  return text + "\n" + x_labels(x, columns);
}

}  // namespace fourfold::report
