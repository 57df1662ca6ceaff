// One number of op::TimeEmbedding, written once for all backends.
#pragma once

#include <cmath>

#include "kernels/on_device.h"
#include "op/table.h"

namespace fourfold::kernels {

/// In double: the angle of a late time loses what its integer part takes of a float's digits.
FOURFOLD_CUDA inline double time_embedding(const op::TimeEmbedding& op, std::int64_t t,
                                           std::int64_t column) {
  const std::int64_t half = op.width / 2;
  if (column >= 2 * half) return 0;
  const bool is_cosine = column < half;
  const auto i = static_cast<double>(is_cosine ? column : column - half);
  const double angle = static_cast<double>(t) * op.scale *
                       std::exp(-std::log(op.max_period) * i / static_cast<double>(half));
  return is_cosine ? std::cos(angle) : std::sin(angle);
}

}  // namespace fourfold::kernels
