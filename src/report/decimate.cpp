#include "report/decimate.h"

#include <algorithm>

#include "base/error.h"

namespace fourfold::report {

std::vector<Column> decimate(std::span<const Point> points, int columns) {
  require(columns >= 1, "a curve is drawn in columns");
  std::vector<Column> result;
  if (points.empty()) return result;
  const double first = points.front().x, width = points.back().x - first;
  int current = -1;
  for (const Point& point : points) {
    const double place = width > 0 ? (point.x - first) / width * columns : 0;
    const int column = std::clamp(static_cast<int>(place), 0, columns - 1);
    if (column != current) result.push_back({0, point.y, 0, point.y, 0});
    current = column;
    Column& last = result.back();
    last.x += point.x;
    last.mean += point.y;
    last.least = std::min(last.least, point.y);
    last.most = std::max(last.most, point.y);
    ++last.count;
  }
  for (Column& column : result) {
    column.x /= static_cast<double>(column.count);
    column.mean /= static_cast<double>(column.count);
  }
  return result;
}

}  // namespace fourfold::report
