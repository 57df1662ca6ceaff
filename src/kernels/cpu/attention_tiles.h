// What causal attention and its gradient share: where a head lies in qkv, blocks of queries,
// packing, softmax. B batch, T time, H heads, D head width. A block of queries meets the keys up to
// its own last one, so of the square of scores only the lower triangle, widened to blocks, is ever
// touched.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/math.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/dropout_mask.h"
#include "kernels/kernel.h"

namespace fourfold::kernels::cpu {

/// Queries worked on at once: four register tiles; at T = 64 it wastes 40 % on masked scores where
/// 48 wastes 60 %.
inline constexpr std::int64_t query_block = 4 * tile_rows;

struct AttentionSizes {
  std::int64_t batch, time, heads, width;
  explicit AttentionSizes(const Shape& qkv)
      : batch(qkv[0]), time(qkv[1]), heads(qkv[3]), width(qkv[4]) {}

  std::int64_t units() const { return batch * heads; }
  std::int64_t qkv_stride() const { return 3 * heads * width; }  // from t to t + 1
  std::int64_t y_stride() const { return heads * width; }
  /// Offset of row t = 0; part 0: query, 1: key, 2: value; unit = sample * heads + head.
  std::int64_t qkv(std::int64_t unit, std::int64_t part) const {
    return ((unit / heads * time * 3 + part) * heads + unit % heads) * width;
  }
  std::int64_t y(std::int64_t unit) const {
    return (unit / heads * time * heads + unit % heads) * width;
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
  /// Multiply-adds of a product over the whole square: what decides how many threads are worth
  /// using.
  std::int64_t work() const { return units() * time * time * width / 4; }
};

/// Rows [first, first + rows) of queries and the keys [0, keys) that they see, `keys_padded` to
/// whole panels.
struct QueryBlock {
  std::int64_t first, rows, keys, keys_padded;
};
template <class T>
QueryBlock query_block_at(std::int64_t first, std::int64_t time) {
  const std::int64_t rows = std::min(query_block, time - first);
  return {first, rows, first + rows, padded_columns<T>(first + rows)};
}

/// to (rows, width) = scale * from, dense.
template <class T>
void copy_scaled(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t width, T scale,
                 T* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t d = 0; d < width; ++d) to[row * width + d] = scale * from[row * stride + d];
}

/// Turns scores into exp(score - largest); returns largest and the sum.
template <class T>
struct RowSoftmax {
  T largest, sum;
};
template <class T>
RowSoftmax<T> exponentials(T* scores, std::int64_t count) {
  T largest = scores[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t s = 0; s < count; ++s) largest = largest < scores[s] ? scores[s] : largest;
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t s = 0; s < count; ++s) {
    scores[s] = exp_of(scores[s] - largest);
    sum += scores[s];
  }
  return {largest, sum};
}

/// Scratch of one thread, laid out by the constructor of `HeadScratch`.
template <class HeadScratch>
std::int64_t thread_bytes(const AttentionSizes& sizes) {
  Scratch count(nullptr);
  HeadScratch(count, sizes);
  return count.used_bytes();
}

/// body(unit, scratch) for every head of every sample, shared among threads.
template <class HeadScratch, class Body>
void for_heads(const AttentionSizes& sizes, int threads, std::byte* workspace, Body&& body) {
  const int parts = team_size(threads, sizes.work());
  for_parts(parts, [&](int part) {
    Scratch scratch(workspace + part * thread_bytes<HeadScratch>(sizes));
    const HeadScratch own(scratch, sizes);
    const Range units = range_of(part, parts, sizes.units(), 1);
    for (std::int64_t unit = units.first; unit < units.last; ++unit) body(unit, own);
  });
}

}  // namespace fourfold::kernels::cpu
