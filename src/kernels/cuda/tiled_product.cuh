// A product of matrices by tiles in shared memory, for factors that lie in memory in any way: a
// factor says what its elements are. M, N, K: out (M, N) = a (M, K) b (K, N).
#pragma once

#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp_product.cuh"

namespace fourfold::kernels::cuda {

// A factor has
//   count                  rows of a or columns of b; which of them, `index` says
//   depth                  K
//   at(index, inner)       an element; 0 where index >= count or inner >= depth
//   is_inner_contiguous()  whether neighbours along K lie side by side, and not those along index

inline constexpr int product_rows = 64, product_columns = 64, product_depth = 32;
inline constexpr int product_warps = product_rows / 16;
inline constexpr unsigned product_threads = product_warps * warp_lanes;

constexpr unsigned tiles_of(std::int64_t count, int size) {
  return static_cast<unsigned>(ceil_divide(count, size));
}

/// A tile of a factor in shared memory, neighbouring threads taking what lies side by side.
template <class Factor, class T>
__device__ void load_product_tile(const Factor& from, std::int64_t first, std::int64_t inner,
                                  int rows, int stride, T* to) {
  const bool inner_first = from.is_inner_contiguous();
  for (int i = static_cast<int>(threadIdx.x); i < rows * product_depth;
       i += static_cast<int>(product_threads)) {
    const int index = inner_first ? i / product_depth : i % rows;
    const int k = inner_first ? i % product_depth : i / rows;
    to[index * stride + k] = from.at(first + index, inner + k);
  }
}

/// Blocks count tiles of rows first, then of columns, then stretches of K: those of each stretch
/// write a product of their own, one after another.
template <class T, class A, class B, class Out>
__global__ void __launch_bounds__(product_threads)
    tiled_product(A a, B b, bool accumulate, Out* out_MN) {
  begin_kernel();
  constexpr int stride = shared_stride(product_depth, sizeof(T));
  // As bytes: shared memory holds nothing that has to be constructed.
  alignas(16) __shared__ std::byte tiles[(product_rows + product_columns) * stride * sizeof(T)];
  T* const a_tile = reinterpret_cast<T*>(tiles);
  T* const b_tile = a_tile + product_rows * stride;
  const unsigned row_tiles = tiles_of(a.count, product_rows),
                 column_tiles = tiles_of(b.count, product_columns);
  const unsigned of_columns = blockIdx.x / row_tiles;
  const std::int64_t first_row = std::int64_t{product_rows} * (blockIdx.x % row_tiles);
  const std::int64_t first_column = std::int64_t{product_columns} * (of_columns % column_tiles);
  const std::int64_t number = of_columns / column_tiles;  // of the stretch
  const std::int64_t stretches = gridDim.x / row_tiles / column_tiles;
  const std::int64_t stretch =
      ceil_divide(ceil_divide(a.depth, product_depth), stretches) * product_depth;
  const std::int64_t first_inner = number * stretch;
  const std::int64_t end_inner = min(a.depth, first_inner + stretch);
  const int warp_row = 16 * warp_index();
  WarpSums<product_columns / 8> sums[1];
  for (std::int64_t inner = first_inner; inner < end_inner; inner += product_depth) {
    __syncthreads();  // the last tiles are no longer read
    load_product_tile(a, first_row, inner, product_rows, stride, a_tile);
    load_product_tile(b, first_column, inner, product_columns, stride, b_tile);
    __syncthreads();
    add_product<product_depth>(InnerContiguous<T>{a_tile + warp_row * stride, stride},
                               InnerContiguous<T>{b_tile, stride}, sums);
  }
#pragma unroll
  for (int tile = 0; tile < product_columns / 8; ++tile)
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = first_row + warp_row + row_of(i);
      const std::int64_t column = first_column + 8 * tile + column_of(i);
      if (row >= a.count || column >= b.count) continue;
      Out& out = out_MN[(number * a.count + row) * b.count + column];
      const float sum = sums[0].sum[tile][i];
      out = from_float<Out>(accumulate ? to_float(out) + sum : sum);
    }
}

inline LaunchShape product_launch(std::int64_t rows, std::int64_t columns,
                                  std::int64_t stretches = 1) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(tiles_of(rows, product_rows) *
                                         tiles_of(columns, product_columns) * stretches);
  shape.threads = product_threads;
  return shape;
}

template <class T, class A, class B, class Out>
void enqueue_product(const A& a, const B& b, bool accumulate, Out* out_MN, Stream stream) {
  launch(tiled_product<T, A, B, Out>, product_launch(a.count, b.count), stream, a, b, accumulate,
         out_MN);
}

/// out (+)= the sum of the products of all stretches, in order; `count` elements each.
template <class Out>
__global__ void add_products(const float* products, std::int64_t stretches, std::int64_t count,
                             bool accumulate, Out* out) {
  begin_kernel();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = products[i];
  for (std::int64_t stretch = 1; stretch < stretches; ++stretch)
    sum += products[stretch * count + i];
  out[i] = from_float<Out>(accumulate ? to_float(out[i]) + sum : sum);
}

/// For small products of long sums: K is cut into stretches, whose products lie in the workspace.
template <class T, class A, class B, class Out>
void enqueue_product_in_stretches(const A& a, const B& b, std::int64_t stretches, bool accumulate,
                                  Out* out_MN, Workspace workspace, Stream stream) {
  if (stretches == 1) return enqueue_product<T>(a, b, accumulate, out_MN, stream);
  constexpr unsigned threads = 256;
  auto* products = reinterpret_cast<float*>(workspace.data());
  launch(tiled_product<T, A, B, float>, product_launch(a.count, b.count, stretches), stream, a, b,
         false, products);
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(a.count * b.count, threads));
  shape.threads = threads;
  launch(add_products<Out>, shape, stream, products, stretches, a.count * b.count, accumulate,
         out_MN);
}

/// A factor whose elements lie at regular distances.
template <class T>
struct StoredMatrix {
  const T* data;
  std::int64_t count, index_stride, depth, inner_stride;
  __device__ T at(std::int64_t index, std::int64_t inner) const {
    return index < count && inner < depth ? data[index * index_stride + inner * inner_stride]
                                          : from_float<T>(0.F);
  }
  __device__ bool is_inner_contiguous() const { return inner_stride == 1; }
};

}  // namespace fourfold::kernels::cuda
