// The shape of what a norm is taken over. Header only.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace fourfold::kernels::reference {

struct NormSizes {
  std::int64_t rows, channels;
};
inline NormSizes norm_sizes(const Shape& x) {
  return {x.elements(0, x.rank() - 1), x.back()};
}

}  // namespace fourfold::kernels::reference
