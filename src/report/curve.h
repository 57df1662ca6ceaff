// A curve drawn with letters: how a loss fell, in a terminal or a text file. Not a page with plots.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fourfold::report {

struct Point {
  double x = 0, y = 0;
};

/// Those of which both numbers are finite.
std::vector<Point> finite(std::span<const Point> points);

/// The points of a curve that may become very long: beyond `most` points neighbours are averaged in
/// ever larger groups, so memory is bounded and no part of the curve is lost.
class Series {
 public:
  static constexpr std::size_t most = 4096;

  /// In order of x.
  void add(Point point);
  std::vector<Point> points() const;

 private:
  struct Sum {
    Point sum;
    std::int64_t count = 0;
  };
  std::vector<Sum> groups_;
  std::int64_t group_size_ = 1;
};

struct CurveSize {
  int columns = 80, rows = 16;  // all of it, axes included
  bool is_unicode = false;      // Braille dots, eight to a letter, in place of ASCII
};

/// Lines of text: the curve with its axes; `marks`, single points such as evaluations, lie over it.
/// Values that are not finite are left out. Empty for less than two points, or where the size is
/// too small to show anything.
std::string draw_curve(std::span<const Point> curve, std::span<const Point> marks,
                       const CurveSize& size);

}  // namespace fourfold::report
