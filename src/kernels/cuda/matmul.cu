// The product of matrices by own kernels, op::Matmul states the contract: what runs where there is
// no cuBLASLt, and what it is compared with. M, N, K: out (M, N) = a (M, K) b (K, N).
#include "kernels/cuda/rows.h"
#include "kernels/cuda/warp_product.cuh"
#include "kernels/matmul_sizes.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int tile_rows = 64, tile_columns = 64, tile_depth = 32;
constexpr int product_warps = tile_rows / 16;
constexpr unsigned product_threads = product_warps * warp_lanes;

/// Elements (index, inner) of an operand as it is stored.
template <class T>
struct StoredMatrix {
  const T* data;
  std::int64_t count, index_stride, depth, inner_stride;
  __device__ T at(std::int64_t index, std::int64_t inner) const {
    return index < count && inner < depth ? data[index * index_stride + inner * inner_stride]
                                          : from_float<T>(0.F);
  }
};

/// A tile of it in shared memory, neighbouring threads taking what lies side by side.
template <class T>
__device__ void load_tile(const StoredMatrix<T>& from, std::int64_t first, std::int64_t inner,
                          int rows, int stride, T* to) {
  const bool inner_first = from.inner_stride == 1;
  for (int i = static_cast<int>(threadIdx.x); i < rows * tile_depth;
       i += static_cast<int>(product_threads)) {
    const int index = inner_first ? i / tile_depth : i % rows;
    const int k = inner_first ? i % tile_depth : i / rows;
    to[index * stride + k] = from.at(first + index, inner + k);
  }
}

template <class T, class Out>
__global__ void __launch_bounds__(product_threads)
    matmul(StoredMatrix<T> a, StoredMatrix<T> b, bool accumulate, Out* out_MN) {
  constexpr int stride = shared_stride(tile_depth, sizeof(T));
  // As bytes: shared memory holds nothing that has to be constructed.
  alignas(16) __shared__ std::byte tiles[(tile_rows + tile_columns) * stride * sizeof(T)];
  T* const a_tile = reinterpret_cast<T*>(tiles);
  T* const b_tile = a_tile + tile_rows * stride;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * tile_rows;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.y) * tile_columns;
  const int warp_row = 16 * warp_index();
  WarpSums<tile_columns / 8> sums[1];
  for (std::int64_t inner = 0; inner < a.depth; inner += tile_depth) {
    __syncthreads();  // the last tiles are no longer read
    load_tile(a, first_row, inner, tile_rows, stride, a_tile);
    load_tile(b, first_column, inner, tile_columns, stride, b_tile);
    __syncthreads();
    add_product<tile_depth>(InnerContiguous<T>{a_tile + warp_row * stride, stride},
                            InnerContiguous<T>{b_tile, stride}, sums);
  }
#pragma unroll
  for (int tile = 0; tile < tile_columns / 8; ++tile)
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = first_row + warp_row + row_of(i);
      const std::int64_t column = first_column + 8 * tile + column_of(i);
      if (row >= a.count || column >= b.count) continue;
      Out& out = out_MN[row * b.count + column];
      const float sum = sums[0].sum[tile][i];
      out = from_float<Out>(accumulate ? to_float(out) + sum : sum);
    }
}

}  // namespace

Enqueue prepare_row(const op::Matmul& op, const Problem& problem) {
  const MatmulSizes sizes = matmul_sizes(op, problem.shapes);
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.m, tile_rows));
  shape.blocks_y = static_cast<unsigned>(ceil_divide(sizes.n, tile_columns));
  shape.threads = product_threads;
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_output<T>(op.unrounded, [&]<class Out>(As<Out>) -> Enqueue {
      return [=, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
        launch(matmul<T, Out>, shape, stream,
               StoredMatrix<T>{operands[0].as<T>(), sizes.m, sizes.a_row_stride, sizes.k,
                               sizes.a_inner_stride},
               StoredMatrix<T>{operands[1].as<T>(), sizes.n, sizes.b_column_stride, sizes.k,
                               sizes.b_inner_stride},
               accumulate, operands[2].as<Out>());
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
