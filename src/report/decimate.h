// A long curve for few columns, without losing what stands out.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "report/curve.h"

namespace fourfold::report {

/// The points of one column.
struct Column {
  double x = 0;  // mean
  double least = 0, mean = 0, most = 0;
  std::int64_t count = 0;
};

/// Groups points, in rising x, into at most `columns` stretches of equal width in x. The least and
/// the largest value of every stretch are kept. Requires columns >= 1. Cost: linear.
std::vector<Column> decimate(std::span<const Point> points, int columns);

}  // namespace fourfold::report
