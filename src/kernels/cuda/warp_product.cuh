// Small products by one warp, the second factor in shared memory, the first there or in registers,
// sums in registers: f32 by multiply-add, bf16 by tensor cores.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/fragments.h"
#include "kernels/cuda/reduce.cuh"

namespace fourfold::kernels::cuda {

/// Sums of 16 rows and 8 `tiles` columns, spread over the lanes of a warp: sum[tile][i] of a lane
/// is at row `row_of(i)`, column 8 tile + column_of(i).
template <int tiles>
struct WarpSums {
  float sum[tiles][4] = {};
};
__device__ inline int row_of(int i) {
  return place_of_sum(lane_index(), i).row;
}
__device__ inline int column_of(int i) {
  return place_of_sum(lane_index(), i).column;
}

/// 16 x 16 elements of a first factor, spread over the lanes of a warp.
template <class T>
struct WarpFactor;
/// Two sums side by side: values[t][i] at row_of(i), column 8 t + column_of(i).
template <>
struct WarpFactor<float> {
  float values[2][4];
};
/// As multiply_bf16_16x8x16 takes them.
template <>
struct WarpFactor<BFloat16> {
  std::uint32_t words[4];
};

/// Columns 16 step ... 16 step + 15 of sums, rounded to T.
template <class T, int tiles>
__device__ WarpFactor<T> factor_of(const WarpSums<tiles>& sums, int step) {
  WarpFactor<T> factor;
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const float(&sum)[4] = sums.sum[2 * step + t];
    if constexpr (sizeof(T) == 2) {
      factor.words[2 * t] = bf16_pair(sum[0], sum[1]);
      factor.words[2 * t + 1] = bf16_pair(sum[2], sum[3]);
    } else {
      for (int i = 0; i < 4; ++i) factor.values[t][i] = sum[i];
    }
  }
  return factor;
}

/// All of sums as a first factor.
template <class T, int row_tiles, int tiles>
__device__ void factors_of(const WarpSums<tiles> (&sums)[row_tiles],
                           WarpFactor<T> (&factors)[row_tiles][tiles / 2]) {
#pragma unroll
  for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
    for (int step = 0; step < tiles / 2; ++step)
      factors[rows][step] = factor_of<T>(sums[rows], step);
}

/// A matrix in shared memory whose element (index, inner) lies at index * stride + inner: rows of
/// a, columns of b. For bf16, 16 bytes from each eighth element of a row on are aligned.
template <class T>
struct InnerContiguous {
  const T* data;
  int stride;

  __device__ T at(int index, int inner) const { return data[index * stride + inner]; }
  /// Rows index ... index + 15, inner ... inner + 15 as a first factor.
  __device__ WarpFactor<T> factor(int index, int inner) const {
    WarpFactor<T> factor;
    const T* const corner = data + index * stride + inner;
    if constexpr (sizeof(T) == 2) {
      const FragmentPlace place = place_by_columns(lane_index());
      load_matrices(corner + place.row * stride + place.column, factor.words);
    } else {
      for (int t = 0; t < 2; ++t)
        for (int i = 0; i < 4; ++i)
          factor.values[t][i] = corner[row_of(i) * stride + 8 * t + column_of(i)];
    }
    return factor;
  }
  /// Columns index ... index + 15 as two second factors.
  __device__ void second_factors(int index, int inner, std::uint32_t (&words)[4]) const {
    const FragmentPlace place = place_by_rows(lane_index());
    load_matrices(data + (index + place.row) * stride + inner + place.column, words);
  }
};

/// Element (index, inner) lies at inner * stride + index.
template <class T>
struct IndexContiguous {
  const T* data;
  int stride;

  __device__ T at(int index, int inner) const { return data[inner * stride + index]; }
  __device__ WarpFactor<T> factor(int index, int inner) const {
    WarpFactor<T> factor;
    if constexpr (sizeof(T) == 2) {
      const FragmentPlace place = place_by_rows(lane_index());
      load_matrices_transposed(data + (inner + place.row) * stride + index + place.column,
                               factor.words);
    } else {
      for (int t = 0; t < 2; ++t)
        for (int i = 0; i < 4; ++i)
          factor.values[t][i] = at(index + row_of(i), inner + 8 * t + column_of(i));
    }
    return factor;
  }
  __device__ void second_factors(int index, int inner, std::uint32_t (&words)[4]) const {
    const FragmentPlace place = place_by_columns(lane_index());
    load_matrices_transposed(data + (inner + place.row) * stride + index + place.column, words);
  }
};

/// sums (16 row_tiles, 8 tiles) += a (16 row_tiles, 16) b (16, 8 tiles), b from `inner` on; tiles
/// is even. What is loaded of b serves all row tiles. All lanes call it.
template <int row_tiles, int tiles, template <class> class B>
__device__ void add_step(const WarpFactor<BFloat16> (&a)[row_tiles], const B<BFloat16>& b,
                         int inner, WarpSums<tiles> (&sums)[row_tiles]) {
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    std::uint32_t words[4];
    b.second_factors(8 * tile, inner, words);
#pragma unroll
    for (int rows = 0; rows < row_tiles; ++rows) {
      multiply_bf16_16x8x16(sums[rows].sum[tile], a[rows].words, words[0], words[1]);
      multiply_bf16_16x8x16(sums[rows].sum[tile + 1], a[rows].words, words[2], words[3]);
    }
  }
}

template <int row_tiles, int tiles, template <class> class B>
__device__ void add_step(const WarpFactor<float> (&a)[row_tiles], const B<float>& b, int inner,
                         WarpSums<tiles> (&sums)[row_tiles]) {
#pragma unroll 1  // 8 columns at once fill the registers well enough
  for (int t = 0; t < 2; ++t) {
    float values[row_tiles][4];
#pragma unroll
    for (int rows = 0; rows < row_tiles; ++rows)
#pragma unroll
      for (int i = 0; i < 4; ++i)  // not indexed with t: that would keep the factor in memory
        values[rows][i] = t == 0 ? a[rows].values[0][i] : a[rows].values[1][i];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int holder = lane_index() / 4 * 4 + k / 2;  // has column k of this lane's rows
      float upper[row_tiles], lower[row_tiles];
#pragma unroll
      for (int rows = 0; rows < row_tiles; ++rows) {
        upper[rows] = __shfl_sync(all_lanes, values[rows][k % 2], holder);
        lower[rows] = __shfl_sync(all_lanes, values[rows][2 + k % 2], holder);
      }
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
        const float left = b.at(8 * tile + column_of(0), inner + 8 * t + k);
        const float right = b.at(8 * tile + column_of(1), inner + 8 * t + k);
#pragma unroll
        for (int rows = 0; rows < row_tiles; ++rows) {
          float(&sum)[4] = sums[rows].sum[tile];
          sum[0] += upper[rows] * left;
          sum[1] += upper[rows] * right;
          sum[2] += lower[rows] * left;
          sum[3] += lower[rows] * right;
        }
      }
    }
  }
}

/// sums += a b with a (16 row_tiles, depth) in shared memory; depth is a multiple of 16.
template <int depth, int row_tiles, int tiles, class T, template <class> class A,
          template <class> class B>
__device__ void add_product(const A<T>& a, const B<T>& b, WarpSums<tiles> (&sums)[row_tiles]) {
  [[maybe_unused]] constexpr int steps_at_once = sizeof(T) == 2 ? depth / 16 : 1;
#pragma unroll steps_at_once
  for (int inner = 0; inner < depth; inner += 16) {
    WarpFactor<T> factors[row_tiles];
#pragma unroll
    for (int rows = 0; rows < row_tiles; ++rows) factors[rows] = a.factor(16 * rows, inner);
    add_step(factors, b, inner, sums);
  }
}

/// sums += a b with a (16 row_tiles, 16 steps) in registers.
template <int row_tiles, int tiles, int steps, class T, template <class> class B>
__device__ void add_product(const WarpFactor<T> (&a)[row_tiles][steps], const B<T>& b,
                            WarpSums<tiles> (&sums)[row_tiles]) {
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    WarpFactor<T> factors[row_tiles];
#pragma unroll
    for (int rows = 0; rows < row_tiles; ++rows) factors[rows] = a[rows][step];
    add_step(factors, b, 16 * step, sums);
  }
}

}  // namespace fourfold::kernels::cuda
