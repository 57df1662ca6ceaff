// Loops over tensors (B, ..., C) on CPU: vectors run along the channels.
#pragma once

#include <algorithm>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/pixels.h"

namespace fourfold::kernels::cpu {

/// Channels that are worked on together: what is known of them stays in the first cache.
inline constexpr std::int64_t channels_at_once = 32;

/// Channels `first` ... `first + count - 1` of the pixels of one sample; `begin` is the element
/// where the first of them begins.
struct ChannelBlock {
  std::int64_t sample, first, count, begin;
};

/// body(block) for all blocks of all samples, threads sharing them.
template <class Body>
void for_channel_blocks(const PixelSizes& sizes, int threads, Body body) {
  const std::int64_t blocks = (sizes.channels + channels_at_once - 1) / channels_at_once;
  for_ranges(
      sizes.samples * blocks, team_size(threads, sizes.elements()), 1,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t block = first; block < last; ++block) {
          const std::int64_t sample = block / blocks, channel = block % blocks * channels_at_once;
          body(ChannelBlock{sample, channel, std::min(channels_at_once, sizes.channels - channel),
                            sample * sizes.pixels * sizes.channels + channel});
        }
      });
}

/// body(element, i): i counts the channels of a block, `element` those of the tensor.
template <class Body>
void for_elements(const PixelSizes& sizes, const ChannelBlock& block, Body body) {
  for (std::int64_t pixel = 0; pixel < sizes.pixels; ++pixel) {
    const std::int64_t element = block.begin + pixel * sizes.channels;
#pragma omp simd
    for (std::int64_t i = 0; i < block.count; ++i) body(element + i, i);
  }
}

/// sum[i] = the sum of term(element, i) over the pixels of channel i of a block.
template <class T, class Term>
void sum_over_pixels(const PixelSizes& sizes, const ChannelBlock& block, Term term, T* sum) {
  sum_columns<T>(
      sizes.pixels, block.count, false, 1,
      [=](std::int64_t pixel, std::int64_t i) {
        return term(block.begin + pixel * sizes.channels + i, i);
      },
      sum);
}

}  // namespace fourfold::kernels::cpu
