// Sums over rows on the device: gradients of biases and of the gain and bias of a norm.
// op::BiasGradient and op::LayerNormWeightGradient state the contracts. R rows, N columns.
//
// Two stages: blocks sum stretches of rows into the workspace, then the stretches are added in
// order. Which rows are summed where depends on the shape alone.
#include <algorithm>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int columns_per_block = warp_lanes;
constexpr int rows_at_once = 8;  // warps of a block, each on a row of its own
constexpr unsigned sum_threads = columns_per_block * rows_at_once;

struct ColumnSizes {
  std::int64_t rows, columns;
};

/// Into how many stretches rows are cut: enough blocks for a large GPU, at least 64 rows in each.
std::int64_t stretches_of(const ColumnSizes& sizes) {
  constexpr std::int64_t wanted_blocks = 528, least_rows = 64;
  const std::int64_t wide = ceil_divide(sizes.columns, columns_per_block);
  return std::clamp<std::int64_t>(
      std::min(ceil_divide(wanted_blocks, wide), sizes.rows / least_rows), 1, 1024);
}

std::int64_t bytes_of_stretches(const ColumnSizes& sizes, int sums) {
  return sums * stretches_of(sizes) * sizes.columns * static_cast<std::int64_t>(sizeof(float));
}

/// Terms of the sums of one column: its gradient.
template <class T>
struct BiasTerms {
  static constexpr int sums = 1;
  const T* y_grad_RN;
  std::int64_t columns;
  __device__ void add_to(float (&sum)[1], std::int64_t row, std::int64_t column) const {
    sum[0] += to_float(y_grad_RN[row * columns + column]);
  }
};

/// Of a gain, then of a bias.
template <class T>
struct NormTerms {
  static constexpr int sums = 2;
  const T *x_RC, *y_grad_RC;
  const float *mean_R, *rstd_R;
  std::int64_t columns;
  __device__ void add_to(float (&sum)[2], std::int64_t row, std::int64_t column) const {
    const float grad = to_float(y_grad_RC[row * columns + column]);
    sum[0] += grad * ((to_float(x_RC[row * columns + column]) - mean_R[row]) * rstd_R[row]);
    sum[1] += grad;
  }
};

/// parts[sum][stretch][column]; blocks along x over columns, along y over stretches.
template <class Terms>
__global__ void sum_stretches(Terms terms, ColumnSizes sizes, std::int64_t stretches,
                              float* parts) {
  __shared__ float of_warps[Terms::sums][rows_at_once][columns_per_block];
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * columns_per_block + lane_index();
  const std::int64_t stretch = blockIdx.y;
  const std::int64_t first = sizes.rows * stretch / stretches,
                     last = sizes.rows * (stretch + 1) / stretches;
  float sum[Terms::sums] = {};
  if (column < sizes.columns)
    for (std::int64_t row = first + warp_index(); row < last; row += rows_at_once)
      terms.add_to(sum, row, column);
  for (int i = 0; i < Terms::sums; ++i) of_warps[i][warp_index()][lane_index()] = sum[i];
  __syncthreads();
  if (warp_index() >= Terms::sums || column >= sizes.columns) return;
  float total = 0;
  for (int warp = 0; warp < rows_at_once; ++warp)
    total += of_warps[warp_index()][warp][lane_index()];
  parts[(warp_index() * stretches + stretch) * sizes.columns + column] = total;
}

template <int sums>
struct ColumnOutputs {
  float* sum[sums];  // null where it is not wanted
};

template <int sums>
__global__ void add_stretches(const float* parts, ColumnSizes sizes, std::int64_t stretches,
                              bool accumulate, ColumnOutputs<sums> outputs) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= sizes.columns) return;
  for (int i = 0; i < sums; ++i) {
    if (outputs.sum[i] == nullptr) continue;
    float total = accumulate ? outputs.sum[i][column] : 0.F;
    for (std::int64_t stretch = 0; stretch < stretches; ++stretch)
      total += parts[(i * stretches + stretch) * sizes.columns + column];
    outputs.sum[i][column] = total;
  }
}

template <class Terms>
void enqueue_sums(const Terms& terms, const ColumnSizes& sizes, bool accumulate,
                  const ColumnOutputs<Terms::sums>& outputs, Workspace workspace, Stream stream) {
  const std::int64_t stretches = stretches_of(sizes);
  auto* parts = reinterpret_cast<float*>(workspace.data());
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.columns, columns_per_block));
  shape.blocks_y = static_cast<unsigned>(stretches);
  shape.threads = sum_threads;
  launch(sum_stretches<Terms>, shape, stream, terms, sizes, stretches, parts);
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.columns, sum_threads));
  shape.blocks_y = 1;
  launch(add_stretches<Terms::sums>, shape, stream, parts, sizes, stretches, accumulate, outputs);
}

ColumnSizes bias_sizes(const Problem& problem) {
  const std::int64_t columns = problem.shapes[1].elements();
  return {columns == 0 ? 0 : problem.shapes[0].elements() / columns, columns};
}
ColumnSizes norm_sizes(const Problem& problem) {
  const Shape& x = problem.shapes[0];
  return {x.elements(0, x.rank() - 1), x.back()};
}

}  // namespace

std::int64_t workspace_bytes(const op::BiasGradient&, const Problem& problem) {
  return bytes_of_stretches(bias_sizes(problem), 1);
}
std::int64_t workspace_bytes(const op::LayerNormWeightGradient&, const Problem& problem) {
  return bytes_of_stretches(norm_sizes(problem), 2);
}

Enqueue prepare_row(const op::BiasGradient& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes = bias_sizes(problem), accumulate = op.accumulate](
               Tensors operands, Workspace workspace, Stream stream) {
      enqueue_sums(BiasTerms<T>{operands[0].as<T>(), sizes.columns}, sizes, accumulate,
                   {{operands[1].as<float>()}}, workspace, stream);
    };
  });
}

Enqueue prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes = norm_sizes(problem), op](Tensors operands, Workspace workspace, Stream stream) {
      const NormTerms<T> terms{operands[0].as<T>(), operands[3].as<T>(), operands[1].as<float>(),
                               operands[2].as<float>(), sizes.columns};
      enqueue_sums(terms, sizes, op.accumulate,
                   {{operands[4].as<float>(), op.bias ? operands[5].as<float>() : nullptr}},
                   workspace, stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
