// A tensor (B, ..., C) as kernels see it whose loops are alike for any dims between: samples,
// pixels, channels.
#pragma once

#include <cstdint>

#include "kernels/on_device.h"
#include "op/table.h"

namespace fourfold::kernels {

struct PixelSizes {
  std::int64_t samples, pixels, channels;
  FOURFOLD_CUDA std::int64_t elements() const { return samples * pixels * channels; }
  FOURFOLD_CUDA std::int64_t sample_of(std::int64_t element) const {
    return element / (pixels * channels);
  }
};
inline PixelSizes pixel_sizes(const Shape& x) {
  return {x[0], x.elements(1, x.rank() - 1), x.back()};
}

}  // namespace fourfold::kernels
