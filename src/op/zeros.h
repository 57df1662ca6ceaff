// The row that fills a tensor with zero, for rooms that name no rows.
#pragma once

#include "op/table.h"

namespace fourfold::op {

/// Writes a tensor of this logical shape.
inline Op zeros(const Shape& shape) {
  return Fill{.value = 0, .shape = shape};
}

}  // namespace fourfold::op
