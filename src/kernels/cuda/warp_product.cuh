// Small products by one warp, operands in shared memory, sums in registers: f32 by multiply-add,
// bf16 by tensor cores.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"

namespace fourfold::kernels::cuda {

/// Sums of 16 rows and 8 `tiles` columns, spread over the lanes of a warp: sum[tile][i] of a lane
/// is at row `row_of(i)`, column 8 tile + column_of(i).
template <int tiles>
struct WarpSums {
  float sum[tiles][4] = {};
};
__device__ inline int row_of(int i) {
  return lane_index() / 4 + 8 * (i / 2);
}
__device__ inline int column_of(int i) {
  return 2 * (lane_index() % 4) + i % 2;
}

/// A matrix in shared memory whose element (index, inner) lies at index * stride + inner: rows of
/// a, columns of b.
template <class T>
struct InnerContiguous {
  const T* data;
  int stride;
  __device__ const T& at(int index, int inner) const { return data[index * stride + inner]; }
  /// Elements (index, inner) and (index, inner + 1) in one word; inner and stride are even.
  __device__ std::uint32_t pair(int index, int inner) const {
    return *reinterpret_cast<const std::uint32_t*>(data + index * stride + inner);
  }
};

/// Element (index, inner) lies at inner * stride + index.
template <class T>
struct IndexContiguous {
  const T* data;
  int stride;
  __device__ const T& at(int index, int inner) const { return data[inner * stride + index]; }
  __device__ std::uint32_t pair(int index, int inner) const {
    return static_cast<std::uint32_t>(at(index, inner).bits) |
           static_cast<std::uint32_t>(at(index, inner + 1).bits) << 16;
  }
};

/// sums (16, 8 tiles) += a (16, depth) b (depth, 8 tiles); depth is a multiple of 16. All lanes
/// call it.
template <int depth, int tiles, template <class> class A, template <class> class B>
__device__ void warp_product(const A<float>& a, const B<float>& b, WarpSums<tiles>& sums) {
  for (int inner = 0; inner < depth; ++inner) {
    const float upper = a.at(row_of(0), inner), lower = a.at(row_of(2), inner);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const float left = b.at(8 * tile + column_of(0), inner);
      const float right = b.at(8 * tile + column_of(1), inner);
      sums.sum[tile][0] += upper * left;
      sums.sum[tile][1] += upper * right;
      sums.sum[tile][2] += lower * left;
      sums.sum[tile][3] += lower * right;
    }
  }
}

template <int depth, int tiles, template <class> class A, template <class> class B>
__device__ void warp_product(const A<BFloat16>& a, const B<BFloat16>& b, WarpSums<tiles>& sums) {
  const int group = lane_index() / 4, pair = 2 * (lane_index() % 4);
  for (int inner = pair; inner < depth; inner += 16) {
    const std::uint32_t of_a[4] = {a.pair(group, inner), a.pair(group + 8, inner),
                                   a.pair(group, inner + 8), a.pair(group + 8, inner + 8)};
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const std::uint32_t of_b[2] = {b.pair(8 * tile + group, inner),
                                     b.pair(8 * tile + group, inner + 8)};
      multiply_bf16_16x8x16(sums.sum[tile], of_a, of_b);
    }
  }
}

}  // namespace fourfold::kernels::cuda
