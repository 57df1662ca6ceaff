// Sizes of what attention reads.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace fourfold::kernels {

/// qkv (B, T, 3, H, D), whose T may be several dims.
struct QkvSizes {
  std::int64_t batch, time, heads, width;
  explicit QkvSizes(const Shape& qkv)
      : batch(qkv[0]),
        time(qkv.elements(1, qkv.rank() - 3)),
        heads(qkv[qkv.rank() - 2]),
        width(qkv.back()) {}
};

}  // namespace fourfold::kernels
