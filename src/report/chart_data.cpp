#include "report/chart_data.h"

#include <cmath>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "report/decimate.h"

namespace fourfold::report {
namespace {

constexpr int most_points = 3000;

/// Numbers as short as a drawing needs them.
class Numbers {
 public:
  void add(double value) { text_ += format("{}{:.7g}", text_.empty() ? "" : ",", value); }
  std::string json() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

std::string numbers_of(std::span<const Point> all) {
  std::vector<Point> points;
  for (const Point& point : all)
    if (std::isfinite(point.x) && std::isfinite(point.y)) points.push_back(point);
  const bool is_long = points.size() > static_cast<std::size_t>(most_points);
  Numbers x, y, least, most;
  if (!is_long)
    for (const Point& point : points) {
      x.add(point.x);
      y.add(point.y);
    }
  else
    for (const Column& column : decimate(points, most_points)) {
      x.add(column.x);
      y.add(column.mean);
      least.add(column.least);
      most.add(column.most);
    }
  const std::string ends =
      is_long ? format(",\"least\":{},\"most\":{}", least.json(), most.json()) : "";
  return format("\"x\":{},\"y\":{}{}", x.json(), y.json(), ends);
}

}  // namespace

std::string chart_data(std::span<const ChartCurve> curves, std::span<const std::size_t> runs) {
  std::string json;
  for (std::size_t i = 0; i < curves.size(); ++i)
    json += format("{}{{\"name\":{},\"color\":{},\"run\":{},\"dots\":{},{}}}", i == 0 ? "" : ",",
                   Json(curves[i].name).dump(), curves[i].color, runs[i], curves[i].has_dots,
                   numbers_of(curves[i].points));
  return "[" + json + "]";
}

std::string runs_data(std::span<const Run> runs,
                      std::span<const std::vector<ChartMark>> marks_of_runs) {
  std::string json;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string items, marks;
    for (const Point& point : runs[i].metrics.items_read)
      items += format("{}[{:.0f},{:.0f}]", items.empty() ? "" : ",", point.x, point.y);
    for (const ChartMark& mark : marks_of_runs[i])
      marks += format("{}[{:.0f},{},{}]", marks.empty() ? "" : ",", mark.x, Json(mark.words).dump(),
                      mark.color);
    json += format("{}{{\"items\":[{}],\"marks\":[{}]}}", i == 0 ? "" : ",", items, marks);
  }
  return "[" + json + "]";
}

}  // namespace fourfold::report
