// Sums over rows on the device: gradients of biases, also of those before a GELU with its gradient,
// and of the gains and bias of a norm. op::BiasGradient, GeluGradients, op::LayerNormWeightGradient
// and op::HeadNormWeightGradient say what they compute. R rows, N columns.
//
// Two stages: blocks sum stretches of rows into the workspace, then the stretches are added in
// order. Few rows are one stretch, whose blocks write the sums themselves. Which rows are summed
// where depends on the shape alone.
#include <algorithm>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/norm_operands.h"
#include "kernels/rotary.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int rows_at_once = 8;  // warps of a block, each on a row of its own
constexpr unsigned sum_threads = warp_lanes * rows_at_once;
/// A lane has a pack of columns.
template <class T>
constexpr int columns_per_block = warp_lanes * pack_size<T>;

struct ColumnSizes {
  std::int64_t rows, columns;
};

/// Into how many stretches rows are cut: four blocks for each multiprocessor of a large GPU, at
/// least 64 rows in each. So few rows that a warp sums 16 are one stretch: a second launch would
/// take longer.
std::int64_t stretches_of(const ColumnSizes& sizes, int columns_at_once) {
  constexpr std::int64_t wanted_blocks = 528, least_rows = 64, few_rows = 16 * rows_at_once;
  if (sizes.rows <= few_rows) return 1;
  const std::int64_t wide = ceil_divide(sizes.columns, columns_at_once);
  return std::clamp<std::int64_t>(
      std::min(ceil_divide(wanted_blocks, wide), sizes.rows / least_rows), 1, 1024);
}

std::int64_t bytes_of_stretches(const ColumnSizes& sizes, DType dtype, int sums) {
  const int columns_at_once =
      dtype == DType::bf16 ? columns_per_block<BFloat16> : columns_per_block<float>;
  const std::int64_t stretches = stretches_of(sizes, columns_at_once);
  if (stretches == 1) return 0;
  return sums * stretches * sizes.columns * static_cast<std::int64_t>(sizeof(float));
}

/// Terms of the sums of one column: its gradient. `load` gives what a lane needs of its pack of
/// columns of one row, as it lies, at `place` in the tensor; a warp loads `ahead` rows before it
/// adds one. Registers are for so many `blocks` on a multiprocessor.
template <class T>
struct BiasTerms {
  using Element = T;
  static constexpr int sums = 1, ahead = 8, blocks = 4;
  struct Loaded {
    PackOf<T, T> grad;
  };
  const T* y_grad_RN;

  bool aligned() const { return are_aligned(y_grad_RN); }
  template <class Part>
  __device__ Loaded load(std::int64_t, std::int64_t place, Part there) const {
    return {load_packs<T>(y_grad_RN + place, there)};
  }
  template <class Part>
  __device__ void add_to(float (&sum)[1][pack_size<T>], const Loaded& of, std::int64_t,
                         Part) const {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum[0][i] += of.grad[i];
  }
};

/// The gradient of a GELU, which is written, and the sums of what is stored. x_grad may lie where
/// y_grad does.
template <class T>
struct GeluTerms {
  using Element = T;
  static constexpr int sums = 1, ahead = 2, blocks = 4;
  struct Loaded {
    PackOf<T, T> x, y_grad;
  };
  const T *x_RN, *y_grad_RN;
  T* x_grad_RN;

  bool aligned() const { return are_aligned(x_RN, y_grad_RN, x_grad_RN); }
  template <class Part>
  __device__ Loaded load(std::int64_t, std::int64_t place, Part there) const {
    return {load_packs<T>(x_RN + place, there), load_packs<T>(y_grad_RN + place, there)};
  }
  template <class Part>
  __device__ void add_to(float (&sum)[1][pack_size<T>], const Loaded& of, std::int64_t place,
                         Part there) const {
    float x_grad[pack_size<T>];
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      x_grad[i] = element(Math(), op::GeluGradient(), of.x[i], of.y_grad[i]);
    const PackOf<T, T> written = packs_of<T, T>(x_grad);
    store_packs<T>(written, there, x_grad_RN + place);
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum[0][i] += written[i];
  }
};

/// The sums of a gain, then those of a bias; x lies as X.
template <class X, class T>
struct NormTerms {
  using Element = T;
  static constexpr int sums = 2, ahead = 8, blocks = 2;
  struct Loaded {
    PackOf<T, T> grad;
    PackOf<T, X> x;
    float mean, rstd;
  };
  const X* x_RC;
  const T* y_grad_RC;
  const float *mean_R, *rstd_R;  // no mean where the norm is not centred

  bool aligned() const { return are_aligned(x_RC, y_grad_RC); }
  template <class Part>
  __device__ Loaded load(std::int64_t row, std::int64_t place, Part there) const {
    return {load_packs<T>(y_grad_RC + place, there), load_packs<T>(x_RC + place, there),
            mean_R == nullptr ? 0 : mean_R[row], rstd_R[row]};
  }
  template <class Part>
  __device__ void add_to(float (&sum)[2][pack_size<T>], const Loaded& of, std::int64_t,
                         Part) const {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      sum[0][i] += of.grad[i] * ((of.x[i] - of.mean) * of.rstd);
      sum[1][i] += of.grad[i];
    }
  }
};

/// The sums of the gain of queries, or of keys, of op::HeadNorm: a row is one of these.
template <class T>
struct HeadNormTerms {
  using Element = T;
  static constexpr int sums = 1, ahead = 4, blocks = 2;
  struct Loaded {
    PackOf<T, T> grad, x;
    float rstd;
  };
  const T *qkv, *y_grad;
  const float* rstd;
  QkvVectors sizes;
  bool of_keys;

  bool aligned() const { return are_aligned(qkv, y_grad); }
  template <class Part>
  __device__ Loaded load(std::int64_t row, std::int64_t place, Part there) const {
    const std::int64_t vector = of_keys ? sizes.key(row) : sizes.query(row);
    const std::int64_t at = place + (vector - row) * sizes.width;
    return {load_packs<T>(y_grad + at, there), load_packs<T>(qkv + at, there),
            rstd[sizes.in_rstd(vector)]};
  }
  template <class Part>
  __device__ void add_to(float (&sum)[1][pack_size<T>], const Loaded& of, std::int64_t,
                         Part) const {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) sum[0][i] += of.grad[i] * (of.x[i] * of.rstd);
  }
};

/// Adds the terms of every `rows_at_once`th row of [first, last), at the same column of each. Rows
/// are loaded some at a time, so that the accesses overlap.
template <class Terms, class Part>
__device__ void add_rows(const Terms& terms, std::int64_t first, std::int64_t last,
                         std::int64_t column, std::int64_t columns, Part there,
                         float (&sum)[Terms::sums][pack_size<typename Terms::Element>]) {
  constexpr int ahead = Terms::ahead;
  std::int64_t row = first;
  for (; row + (ahead - 1) * rows_at_once < last; row += ahead * rows_at_once) {
    typename Terms::Loaded loaded[ahead];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const std::int64_t of = row + i * rows_at_once;
      loaded[i] = terms.load(of, of * columns + column, there);
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i)
      terms.add_to(sum, loaded[i], (row + i * rows_at_once) * columns + column, there);
  }
  for (; row < last; row += rows_at_once)
    terms.add_to(sum, terms.load(row, row * columns + column, there), row * columns + column,
                 there);
}

/// parts[sum][stretch][column], or where there is but one stretch its outputs; blocks count groups
/// of columns first, then stretches, the last one first: what a kernel before this one wrote last
/// is still in the cache.
template <class Terms>
__global__ void __launch_bounds__(sum_threads, Terms::blocks)
    sum_stretches(Terms terms, ColumnSizes sizes, bool aligned, std::int64_t stretches,
                  float* parts, ColumnOutputs<Terms::sums> outputs) {
  begin_kernel();
  constexpr int size = pack_size<typename Terms::Element>, columns = warp_lanes * size;
  __shared__ float of_warps[Terms::sums][rows_at_once][columns];
  const auto groups = static_cast<unsigned>(gridDim.x / stretches);
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x % groups) * columns;
  const std::int64_t column = first_column + lane_index() * size;
  const std::int64_t stretch = stretches - 1 - blockIdx.x / groups;
  const std::int64_t first = sizes.rows * stretch / stretches,
                     last = sizes.rows * (stretch + 1) / stretches;
  const std::int64_t count = sizes.columns - column;
  float sum[Terms::sums][size] = {};
  if (aligned)
    add_rows(terms, first + warp_index(), last, column, sizes.columns, WholePack{count > 0}, sum);
  else if (count > 0)
    add_rows(terms, first + warp_index(), last, column, sizes.columns,
             part_of_pack<typename Terms::Element>(count, false), sum);
  for (int i = 0; i < Terms::sums; ++i)
    for (int j = 0; j < size; ++j) of_warps[i][warp_index()][lane_index() * size + j] = sum[i][j];
  __syncthreads();
  for (int i = 0; i < Terms::sums; ++i) {
    if (stretches == 1 && outputs.sum[i] == nullptr) continue;
    for (int j = static_cast<int>(threadIdx.x); j < columns && first_column + j < sizes.columns;
         j += sum_threads) {
      float& out = stretches == 1
                       ? outputs.sum[i][first_column + j]
                       : parts[(i * stretches + stretch) * sizes.columns + first_column + j];
      float total = stretches == 1 ? outputs.first(i, first_column + j) : 0.F;
      for (int warp = 0; warp < rows_at_once; ++warp) total += of_warps[i][warp][j];
      out = total;
    }
  }
}

template <class Terms>
void enqueue_sums(const Terms& terms, const ColumnSizes& sizes,
                  const ColumnOutputs<Terms::sums>& outputs, Workspace workspace, Stream stream) {
  constexpr int columns_at_once = columns_per_block<typename Terms::Element>;
  const std::int64_t stretches = stretches_of(sizes, columns_at_once);
  const bool aligned = terms.aligned() && sizes.columns % pack_size<typename Terms::Element> == 0;
  auto* parts = reinterpret_cast<float*>(workspace.data());
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.columns, columns_at_once) * stretches);
  shape.threads = sum_threads;
  launch(sum_stretches<Terms>, shape, stream, terms, sizes, aligned, stretches, parts, outputs);
  if (stretches > 1) enqueue_stretches({parts, sizes.columns, stretches}, outputs, stream);
}

ColumnSizes sizes_of_sums(const Shape& matrix, const Shape& sums) {
  const std::int64_t columns = sums.elements();
  return {columns == 0 ? 0 : matrix.elements() / columns, columns};
}
ColumnSizes bias_sizes(const Problem& problem) {
  return sizes_of_sums(problem.shapes[0], problem.shapes[1]);
}
ColumnSizes gelu_sizes(const GeluGradients& chain, const Problem& problem) {
  return sizes_of_sums(problem.shapes[chain.x], problem.shapes[chain.bias_grad]);
}
ColumnSizes norm_sizes(const Problem& problem) {
  const Shape& x = problem.shapes[0];
  return {x.elements(0, x.rank() - 1), x.back()};
}

ColumnSizes head_norm_sizes(const QkvVectors& qkv, bool of_keys) {
  return {qkv.tokens() * qkv.groups * (of_keys ? 1 : qkv.of_group - 2), qkv.width};
}

}  // namespace

std::int64_t workspace_bytes(const op::BiasGradient&, const Problem& problem) {
  return bytes_of_stretches(bias_sizes(problem), problem.dtype, 1);
}
std::int64_t workspace_bytes(const op::LayerNormWeightGradient&, const Problem& problem) {
  return bytes_of_stretches(norm_sizes(problem), problem.dtype, 2);
}

Enqueue prepare_row(const op::BiasGradient& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes = bias_sizes(problem), accumulate = op.accumulate](
               Tensors operands, Workspace workspace, Stream stream) {
      enqueue_sums(BiasTerms<T>{operands[0].as<T>()}, sizes,
                   {{operands[1].as<float>()}, {accumulate}}, workspace, stream);
    };
  });
}

std::int64_t workspace_bytes(const GeluGradients& chain, const Problem& problem) {
  return bytes_of_stretches(gelu_sizes(chain, problem), problem.dtype, 1);
}

Enqueue prepare_chain(const GeluGradients& chain, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [chain, sizes = gelu_sizes(chain, problem)](Tensors operands, Workspace workspace,
                                                       Stream stream) {
      enqueue_sums(GeluTerms<T>{operands[chain.x].as<T>(), operands[chain.y_grad].as<T>(),
                                operands[chain.x_grad].as<T>()},
                   sizes, {{operands[chain.bias_grad].as<float>()}, {chain.accumulate}}, workspace,
                   stream);
    };
  });
}

Enqueue prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(op.wide, [&]<class X>(As<X>) -> Enqueue {
      return [sizes = norm_sizes(problem), op, at = NormGradientOperands(op.centred, 1)](
                 Tensors operands, Workspace workspace, Stream stream) {
        const NormTerms<X, T> terms{operands[0].as<X>(), operands[at.y_grad].as<T>(),
                                    optional_operand<float>(operands, at.mean),
                                    operands[at.rstd].as<float>()};
        enqueue_sums(
            terms, sizes,
            {{operands[at.next].as<float>(), op.bias ? operands[at.next + 1].as<float>() : nullptr},
             {op.accumulate, op.accumulate}},
            workspace, stream);
      };
    });
  });
}

std::int64_t workspace_bytes(const op::HeadNormWeightGradient&, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return std::max(bytes_of_stretches(head_norm_sizes(sizes, false), problem.dtype, 1),
                  bytes_of_stretches(head_norm_sizes(sizes, true), problem.dtype, 1));
}

Enqueue prepare_row(const op::HeadNormWeightGradient& op, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [accumulate = op.accumulate, sizes = QkvVectors(problem.shapes[0])](
               Tensors operands, Workspace workspace, Stream stream) {
      for (const bool of_keys : {false, true})
        enqueue_sums(HeadNormTerms<T>{operands[0].as<T>(), operands[2].as<T>(),
                                      operands[1].as<float>(), sizes, of_keys},
                     head_norm_sizes(sizes, of_keys),
                     {{operands[of_keys ? 4 : 3].as<float>()}, {accumulate}}, workspace, stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
