// Loops over tensors (B, ..., C), in order.
#pragma once

#include "kernels/pixels.h"

namespace fourfold::kernels::reference {

/// body(sample, channel, index in the tensor) for all elements.
template <class Body>
void for_elements(const PixelSizes& sizes, Body body) {
  std::int64_t index = 0;
  for (std::int64_t b = 0; b < sizes.samples; ++b)
    for (std::int64_t p = 0; p < sizes.pixels; ++p)
      for (std::int64_t c = 0; c < sizes.channels; ++c) body(b, c, index++);
}

/// body(sample, i) for all samples and so many of each.
template <class Body>
void for_each_of_samples(std::int64_t samples, std::int64_t count, Body body) {
  for (std::int64_t b = 0; b < samples; ++b)
    for (std::int64_t i = 0; i < count; ++i) body(b, i);
}

/// The sum of term(index in the tensor) over the pixels of one channel of one sample.
template <class S, class Term>
S sum_over_pixels(const PixelSizes& sizes, std::int64_t b, std::int64_t c, Term term) {
  S sum = 0;
  for (std::int64_t p = 0; p < sizes.pixels; ++p)
    sum += term((b * sizes.pixels + p) * sizes.channels + c);
  return sum;
}

}  // namespace fourfold::kernels::reference
