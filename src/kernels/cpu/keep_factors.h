// Dropout's decisions for a run of elements: those of DropoutMask, many Philox blocks at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/philox_lanes.h"
#include "kernels/dropout_mask.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {

/// body(words, begin, size) for pieces of [0, count) in order: words[i] decides element first +
/// begin + i, which is dropped where it is below mask.threshold.
template <class Body>
void for_keep_words(const DropoutMask& mask, std::uint64_t first, std::int64_t count, Body body) {
  constexpr std::int64_t batch = 256, narrow = philox_words(2), wide = philox_words(4);
  static_assert(batch % wide == 0);
  alignas(64) std::uint32_t words[batch];
  const PhiloxKeys keys(mask.random.key());
  auto skipped = static_cast<std::int64_t>(first % 4);  // elements of a block before the first
  for (std::int64_t begin = 0; begin < count; skipped = 0) {
    const std::int64_t end = std::min(batch, skipped + count - begin);
    const std::uint64_t block = (first + static_cast<std::uint64_t>(begin)) / 4;
    for (std::int64_t word = 0; word < end;) {
      const std::uint64_t at = block + static_cast<std::uint64_t>(word) / 4;
      if (end - word > narrow) {
        philox_group<4>(keys, at, mask.step, words + word);
        word += wide;
      } else {
        philox_group<2>(keys, at, mask.step, words + word);
        word += narrow;
      }
    }
    body(static_cast<const std::uint32_t*>(words + skipped), begin, end - skipped);
    begin += end - skipped;
  }
}

/// factors[i] = kept_factor, or 0 where element first + i is dropped.
template <class T>
void keep_factors(const DropoutMask& mask, std::uint64_t first, std::int64_t count, T kept_factor,
                  T* factors) {
  const auto choose = [=, threshold = mask.threshold](const std::uint32_t* words,
                                                      std::int64_t begin, std::int64_t size) {
    T* to = factors + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) to[i] = words[i] < threshold ? T{0} : kept_factor;
  };
  for_keep_words(mask, first, count, choose);
}

/// y = x * kept_factor, or 0 where element first + i is dropped. y may be x.
template <class T>
void drop(const DropoutMask& mask, std::uint64_t first, std::int64_t count, Sum<T> kept_factor,
          const T* x, T* y) {
  const auto choose = [=, threshold = mask.threshold](const std::uint32_t* words,
                                                      std::int64_t begin, std::int64_t size) {
    const T* from = x + begin;
    T* to = y + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const Sum<T> scaled = summed(from[i]) * kept_factor;
      store(to[i], words[i] < threshold ? Sum<T>{0} : scaled);
    }
  };
  for_keep_words(mask, first, count, choose);
}

}  // namespace fourfold::kernels::cpu
