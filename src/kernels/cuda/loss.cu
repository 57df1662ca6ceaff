// Cross entropy, whole and in parts, its gradient and the sum of losses on the device;
// op::CrossEntropy ... op::LossSum and op::CrossEntropyBoth say what they compute. R rows (tokens),
// V columns of the vocabulary. A block for each row.
#include <cmath>
#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/vocabulary_window.h"

namespace fourfold::kernels::cuda {
namespace {

using cuda::shuffle_xor;  // beside the overloads for structs below

constexpr int row_warps = 8;
constexpr unsigned row_threads = row_warps * warp_lanes;

LaunchShape row_launch(std::int64_t rows) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(rows);
  shape.threads = row_threads;
  return shape;
}

/// The thread's packs of the first `columns` elements of a row: body(first, count, whole).
template <class T, class Body>
__device__ void for_packs(std::int64_t columns, bool aligned, Body body) {
  constexpr int size = pack_size<T>;
  for (std::int64_t first = static_cast<std::int64_t>(threadIdx.x) * size; first < columns;
       first += row_threads * size) {
    const std::int64_t left = columns - first;
    body(first, left < size ? static_cast<int>(left) : size, aligned && left >= size);
  }
}

/// sum of exp(x - largest) over some elements.
struct SumOfExp {
  float largest, sum;

  static __device__ SumOfExp none() { return {-std::numeric_limits<float>::infinity(), 0}; }
  __device__ void add(float x) {
    if (x > largest) {
      sum = sum * expf(largest - x) + 1;
      largest = x;
    } else {
      // Nothing is added for -infinity beside -infinity, where the difference would be NaN.
      sum += x == none().largest ? 0.F : expf(x - largest);
    }
  }
  static __device__ SumOfExp both(SumOfExp a, SumOfExp b) {
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    const float of_a = a.largest == largest ? a.sum : a.sum * expf(a.largest - largest);
    const float of_b = b.largest == largest ? b.sum : b.sum * expf(b.largest - largest);
    return {largest, of_a + of_b};
  }
};

__device__ SumOfExp shuffle_xor(SumOfExp own, int distance) {
  return {shuffle_xor(own.largest, distance), shuffle_xor(own.sum, distance)};
}

template <class T>
__device__ SumOfExp sum_of_exp(const T* row, std::int64_t columns, bool aligned, SumOfExp* shared) {
  SumOfExp own = SumOfExp::none();
  for_packs<T>(columns, aligned, [&](std::int64_t first, int count, bool whole) {
    float values[pack_size<T>];
    load_pack<T>(row + first, whole, count, values);
    for (int i = 0; i < count; ++i) own.add(values[i]);
  });
  return block_reduce<row_warps>(own, shared,
                                 [](SumOfExp a, SumOfExp b) { return SumOfExp::both(a, b); });
}

/// lse and loss of the block's row; all threads get lse.
template <class T>
__device__ float row_loss(const T* logits, const std::int32_t* labels_R, std::int64_t columns,
                          bool aligned, std::int64_t row, float* loss_R, float* lse_R) {
  __shared__ SumOfExp shared[row_warps];
  const SumOfExp all = sum_of_exp(logits, columns, aligned, shared);
  const float lse = all.largest + logf(all.sum);
  if (threadIdx.x == 0) {
    const std::int32_t label = labels_R[row];
    loss_R[row] = label < 0 ? 0.F : lse - to_float(logits[label]);
    lse_R[row] = lse;
  }
  return lse;
}

template <class T>
__global__ void cross_entropy(const T* logits_RV, const std::int32_t* labels_R,
                              std::int64_t columns, bool aligned, float* loss_R, float* lse_R) {
  const std::int64_t row = blockIdx.x;
  row_loss(logits_RV + row * columns, labels_R, columns, aligned, row, loss_R, lse_R);
}

/// One row of the gradient, which may lie where the logits lie.
template <class T>
__device__ void row_gradient(const T* logits, std::int32_t label, float lse,
                             const VocabularyWindow& window, float scale, bool aligned, T* grad) {
  const std::int64_t hit = window.column_of(label);
  const std::int64_t valid = label < 0 ? 0 : window.valid;
  for_packs<T>(window.local, aligned, [&](std::int64_t first, int count, bool whole) {
    float values[pack_size<T>];
    load_pack<T>(logits + first, whole, count, values);
    for (int i = 0; i < pack_size<T>; ++i) {
      const float p = expf(values[i] - lse);
      values[i] = first + i < valid ? scale * (first + i == hit ? p - 1 : p) : 0.F;
    }
    store_pack<T>(values, whole, count, grad + first);
  });
}

template <class T>
__global__ void cross_entropy_gradient(const T* logits_RV, const std::int32_t* labels_R,
                                       const float* lse_R, VocabularyWindow window, float scale,
                                       bool aligned, T* grad_RV) {
  const std::int64_t row = blockIdx.x, at = row * window.local;
  row_gradient(logits_RV + at, labels_R[row], lse_R[row], window, scale, aligned, grad_RV + at);
}

template <class T>
__global__ void cross_entropy_both(const T* logits_RV, const std::int32_t* labels_R,
                                   VocabularyWindow window, float scale, bool aligned,
                                   float* loss_R, float* lse_R, T* grad_RV) {
  const std::int64_t row = blockIdx.x, at = row * window.local;
  const float lse = row_loss(logits_RV + at, labels_R, window.local, aligned, row, loss_R, lse_R);
  __syncthreads();  // the label's logit is read before its gradient takes its place
  row_gradient(logits_RV + at, labels_R[row], lse, window, scale, aligned, grad_RV + at);
}

template <class T>
__global__ void logit_max(const T* logits_RV, VocabularyWindow window, bool aligned, float* max_R) {
  __shared__ float shared[row_warps];
  const std::int64_t row = blockIdx.x;
  float largest = -std::numeric_limits<float>::infinity();
  for_packs<T>(window.valid, aligned, [&](std::int64_t first, int count, bool whole) {
    float values[pack_size<T>];
    load_pack<T>(logits_RV + row * window.local + first, whole, count, values);
    for (int i = 0; i < count; ++i) largest = fmaxf(largest, values[i]);
  });
  largest = block_reduce<row_warps>(largest, shared, [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x == 0) max_R[row] = largest;
}

template <class T>
__global__ void logit_sums(const T* logits_RV, const std::int32_t* labels_R, const float* max_R,
                           VocabularyWindow window, bool aligned, float* sum_exp_R,
                           float* label_logit_R) {
  __shared__ float shared[row_warps];
  const std::int64_t row = blockIdx.x;
  const T* const logits = logits_RV + row * window.local;
  float sum = 0;
  for_packs<T>(window.valid, aligned, [&](std::int64_t first, int count, bool whole) {
    float values[pack_size<T>];
    load_pack<T>(logits + first, whole, count, values);
    for (int i = 0; i < count; ++i) sum += expf(values[i] - max_R[row]);
  });
  sum = block_sum<row_warps>(sum, shared);
  if (threadIdx.x != 0) return;
  const std::int64_t column = window.column_of(labels_R[row]);
  sum_exp_R[row] = sum;
  label_logit_R[row] = column < 0 ? 0.F : to_float(logits[column]) - max_R[row];
}

/// What op::CrossEntropyMerge reads, then writes; all (R).
struct MergeTensors {
  const float *max, *sum_exp, *label_logit;
  const std::int32_t* labels;
  float *loss, *lse;
};

__global__ void cross_entropy_merge(MergeTensors of, std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float log_sum = logf(of.sum_exp[row]);
  of.loss[row] = of.labels[row] < 0 ? 0.F : log_sum - of.label_logit[row];
  of.lse[row] = of.max[row] + log_sum;
}

struct LossTerms {
  double loss;
  std::int64_t count;
};

__device__ LossTerms shuffle_xor(LossTerms own, int distance) {
  return {shuffle_xor(own.loss, distance), shuffle_xor(own.count, distance)};
}

/// One block: the rows are few.
__global__ void loss_sum(const float* loss_R, const std::int32_t* labels_R, std::int64_t rows,
                         bool accumulate, double* total, std::int64_t* valid_count) {
  __shared__ LossTerms shared[row_warps];
  LossTerms own{0, 0};
  for (std::int64_t row = threadIdx.x; row < rows; row += row_threads) {
    own.loss += static_cast<double>(loss_R[row]);
    own.count += labels_R[row] < 0 ? 0 : 1;
  }
  own = block_reduce<row_warps>(own, shared, [](LossTerms a, LossTerms b) {
    return LossTerms{a.loss + b.loss, a.count + b.count};
  });
  if (threadIdx.x != 0) return;
  *total = accumulate ? *total + own.loss : own.loss;
  *valid_count = accumulate ? *valid_count + own.count : own.count;
}

/// One block computes it, as it does loss_sum.
template <class T>
__global__ void count_correct(const T* logits_RV, const std::int32_t* labels_R, const float* max_R,
                              std::int64_t rows, VocabularyWindow window, bool accumulate,
                              std::int64_t* count) {
  __shared__ std::int64_t shared[row_warps];
  std::int64_t correct = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += row_threads) {
    const std::int64_t column = window.column_of(labels_R[row]);
    if (column >= 0 && to_float(logits_RV[row * window.local + column]) == max_R[row]) ++correct;
  }
  correct = block_sum<row_warps>(correct, shared);
  if (threadIdx.x == 0) *count = accumulate ? *count + correct : correct;
}

struct LogitSizes {
  std::int64_t rows, columns;
  explicit LogitSizes(const Shape& logits)
      : rows(logits.elements(0, logits.rank() - 1)), columns(logits.back()) {}
};

/// True if rows of the tensors may be read and written in packs.
template <class T>
bool rows_aligned(std::int64_t columns, const Tensor& a, const Tensor& b) {
  return columns % pack_size<T> == 0 && are_aligned(a.data, b.data);
}

}  // namespace

Enqueue prepare_row(const op::CrossEntropy&, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      launch(cross_entropy<T>, row_launch(sizes.rows), stream, operands[0].as<T>(),
             operands[1].as<std::int32_t>(), sizes.columns,
             rows_aligned<T>(sizes.columns, operands[0], operands[0]), operands[2].as<float>(),
             operands[3].as<float>());
    };
  });
}

Enqueue prepare_chain(const LossAndGradient& chain, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[chain.logits]);
  const VocabularyWindow window{sizes.columns, sizes.columns, 0};
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return
        [=, scale = static_cast<float>(chain.scale)](Tensors operands, Workspace, Stream stream) {
          const Tensor &logits = operands[chain.logits], &grad = operands[chain.logits_grad];
          launch(cross_entropy_both<T>, row_launch(sizes.rows), stream, logits.as<T>(),
                 operands[chain.labels].as<std::int32_t>(), window, scale,
                 rows_aligned<T>(sizes.columns, logits, grad), operands[chain.loss].as<float>(),
                 operands[chain.lse].as<float>(), grad.as<T>());
        };
  });
}

Enqueue prepare_row(const op::CrossEntropyGradient& op, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.columns);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, scale = static_cast<float>(op.scale)](Tensors operands, Workspace, Stream stream) {
      launch(cross_entropy_gradient<T>, row_launch(sizes.rows), stream, operands[0].as<T>(),
             operands[1].as<std::int32_t>(), operands[2].as<float>(), window, scale,
             rows_aligned<T>(sizes.columns, operands[0], operands[3]), operands[3].as<T>());
    };
  });
}

Enqueue prepare_row(const op::LogitMax& op, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.columns);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(logit_max<T>, row_launch(sizes.rows), stream, operands[0].as<T>(), window,
             rows_aligned<T>(sizes.columns, operands[0], operands[0]), operands[1].as<float>());
    };
  });
}

Enqueue prepare_row(const op::LogitSums& op, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.columns);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(logit_sums<T>, row_launch(sizes.rows), stream, operands[0].as<T>(),
             operands[1].as<std::int32_t>(), operands[2].as<float>(), window,
             rows_aligned<T>(sizes.columns, operands[0], operands[0]), operands[3].as<float>(),
             operands[4].as<float>());
    };
  });
}

Enqueue prepare_row(const op::CrossEntropyMerge&, const Problem& problem) {
  const std::int64_t rows = problem.shapes[0].elements();
  LaunchShape shape = row_launch(ceil_divide(rows, row_threads));
  return [=](Tensors operands, Workspace, Stream stream) {
    launch(cross_entropy_merge, shape, stream,
           MergeTensors{operands[0].as<float>(), operands[1].as<float>(), operands[2].as<float>(),
                        operands[3].as<std::int32_t>(), operands[4].as<float>(),
                        operands[5].as<float>()},
           rows);
  };
}

Enqueue prepare_row(const op::LossSum& op, const Problem& problem) {
  const std::int64_t rows = problem.shapes[0].elements();
  return [=, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
    launch(loss_sum, row_launch(1), stream, operands[0].as<float>(), operands[1].as<std::int32_t>(),
           rows, accumulate, operands[2].as<double>(), operands[3].as<std::int64_t>());
  };
}

Enqueue prepare_row(const op::CountCorrect& op, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.columns);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
      launch(count_correct<T>, row_launch(1), stream, operands[0].as<T>(),
             operands[1].as<std::int32_t>(), operands[2].as<float>(), sizes.rows, window,
             accumulate, operands[3].as<std::int64_t>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
