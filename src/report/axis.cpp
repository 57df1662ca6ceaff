#include "report/axis.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::report {

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
