// Cross entropy, whole and in parts, its gradient and the sum of losses on the device;
// op::CrossEntropy ... op::LossSum and op::CrossEntropyBoth say what they compute. R rows (tokens),
// V columns of the vocabulary. A block for each row, which goes to shared memory where it fits and
// is read from there: memory gives each logit once.
#include <cmath>
#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/vocabulary_window.h"

namespace fourfold::kernels::cuda {
namespace {

using cuda::shuffle_xor;  // beside the overloads for structs below

// With two rows on a multiprocessor, as many threads as hide the latency of memory.
constexpr int row_warps = 16;
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

/// Rows of at most so many bytes are kept: what a block may have on GPUs of compute capability 8.6
/// and 8.9, less what the system and these kernels take.
constexpr std::int64_t most_kept_bytes = (99 << 10) - (1 << 9);

/// How rows are read.
enum class Reading : std::uint8_t { kept, again };

/// e^(x - base) for logits that lie as T. Of bf16, which rounds by 2^-9, with half the
/// instructions: the exponent's error is 2^-24 of |base|, as is that of a base in f32.
template <class T>
struct ExpFrom {
  float base;

  __device__ float operator()(float x) const { return expf(x - base); }
};
template <>
struct ExpFrom<BFloat16> {
  static constexpr float log2_of_e = 1.4426950408889634F;
  float scaled_base;

  __device__ explicit ExpFrom(float base) : scaled_base(base * log2_of_e) {}
  __device__ float operator()(float x) const {
    return exp2_approximate(__fmaf_rn(x, log2_of_e, -scaled_base));
  }
};

/// sum of exp(x - largest) over some elements.
template <class T>
struct SumOfExp {
  static constexpr float least = -std::numeric_limits<float>::infinity();
  float largest, sum;

  static __device__ SumOfExp none() { return {least, 0}; }
  template <class Part>
  __device__ void add(const PackOf<T, T>& x, Part there) {
    float now = largest;
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) now = there.has(i) ? fmaxf(now, x[i]) : now;
    if (now > largest) {
      sum *= ExpFrom<T>{now}(largest);
      largest = now;
    }
    // Nothing is added for -infinity beside -infinity, where the difference would be NaN.
    const ExpFrom<T> power{largest == least ? 0 : largest};
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) sum += power(x[i]);
  }
  static __device__ SumOfExp both(SumOfExp a, SumOfExp b) {
    const float largest = a.largest > b.largest ? a.largest : b.largest;
    const float of_a = a.largest == largest ? a.sum : a.sum * expf(a.largest - largest);
    const float of_b = b.largest == largest ? b.sum : b.sum * expf(b.largest - largest);
    return {largest, of_a + of_b};
  }
};

template <class T>
__device__ SumOfExp<T> shuffle_xor(SumOfExp<T> own, int distance) {
  return {shuffle_xor(own.largest, distance), shuffle_xor(own.sum, distance)};
}

/// What a block is told of logits (R, V) and their labels.
template <class T>
struct LabelledLogits {
  const T* logits_RV;
  const std::int32_t* labels_R;
  std::int64_t columns;
  bool aligned;

  __device__ const T* row() const { return logits_RV + blockIdx.x * columns; }
  __device__ std::int32_t label() const { return labels_R[blockIdx.x]; }
};

/// The thread's packs of the row: use(pack, first, which elements are there). A row that is kept is
/// copied to shared memory and used from there, part by part: the rest of it is on its way by then.
/// It may be read in packs.
template <Reading reading, class T, class Use>
__device__ void for_packs_of_memory(const LabelledLogits<T>& of, Use use) {
  const T* const row = of.row();
  if constexpr (reading == Reading::again) {
    for_packs<T>(of.columns, of.aligned, [&](std::int64_t first, int count, bool whole) {
      const PackPart there{count, whole};
      use(load_packs<T>(row + first, there), first, there);
    });
  } else {
    constexpr int parts = 4;
    constexpr std::int64_t step = std::int64_t{row_threads} * pack_size<T>;
    const std::int64_t steps = (of.columns + step - 1) / step;
    const std::int64_t part_columns = (steps + parts - 1) / parts * step;
    T* const kept = reinterpret_cast<T*>(dynamic_shared());
    const auto for_part = [&](int part, auto body) {
      const std::int64_t begin = part * part_columns, end = begin + part_columns;
      for (std::int64_t first = begin + std::int64_t{threadIdx.x} * pack_size<T>;
           first < end && first < of.columns; first += step)
        body(first);
    };
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      for_part(part, [&](std::int64_t first) { copy_async<16>(kept + first, row + first, true); });
      end_copy_group();
    }
    const auto use_part = [&](int part) {
      for_part(part, [&](std::int64_t first) {
        const WholePack there{true};
        use(load_packs<T>(kept + first, there), first, there);
      });
    };
    wait_for_copies<3>();
    use_part(0);
    wait_for_copies<2>();
    use_part(1);
    wait_for_copies<1>();
    use_part(2);
    wait_for_copies<0>();
    use_part(3);
  }
}

/// lse and loss of the block's row; all threads get lse. The label's logit is read before any
/// thread comes back.
template <Reading reading, class T>
__device__ float row_loss(const LabelledLogits<T>& of, float* loss_R, float* lse_R) {
  __shared__ SumOfExp<T> shared[row_warps];
  const std::int32_t label = of.label();
  const float hit = threadIdx.x == 0 && label >= 0 ? to_float(of.row()[label]) : 0.F;
  SumOfExp<T> own = SumOfExp<T>::none();
  for_packs_of_memory<reading>(
      of, [&](const PackOf<T, T>& pack, std::int64_t, auto there) { own.add(pack, there); });
  const SumOfExp<T> all = block_reduce<row_warps>(
      own, shared, [](SumOfExp<T> a, SumOfExp<T> b) { return SumOfExp<T>::both(a, b); });
  const float lse = all.largest + logf(all.sum);
  if (threadIdx.x == 0) {
    loss_R[blockIdx.x] = label < 0 ? 0.F : lse - hit;
    lse_R[blockIdx.x] = lse;
  }
  return lse;
}

template <class T>
__global__ void cross_entropy(LabelledLogits<T> of, float* loss_R, float* lse_R) {
  begin_kernel();
  row_loss<Reading::again>(of, loss_R, lse_R);
}

/// The block's row of the gradient, which may lie where the logits lie.
template <class T>
__device__ void row_gradient(const LabelledLogits<T>& of, const T* row, float lse,
                             const VocabularyWindow& window, float scale, T* grad_RV) {
  constexpr int size = pack_size<T>;
  const std::int32_t label = of.label();
  const std::int64_t hit = window.column_of(label);
  const std::int64_t valid = label < 0 ? 0 : window.valid;
  const ExpFrom<T> power{lse};
  T* const grad = grad_RV + blockIdx.x * of.columns;
  for_packs<T>(of.columns, of.aligned, [&](std::int64_t first, int count, bool whole) {
    const PackPart there{count, whole};
    const auto x = load_packs<T>(row + first, there);
    float values[size];
#pragma unroll
    for (int i = 0; i < size; ++i) values[i] = scale * power(x[i]);
    // Few packs hold the label or padding.
    if ((hit >= first && hit < first + size) || first + size > valid) {
#pragma unroll
      for (int i = 0; i < size; ++i) {
        if (first + i == hit) values[i] = scale * (power(x[i]) - 1);
        if (first + i >= valid) values[i] = 0;
      }
    }
    store_packs<T>(values, there, grad + first);
  });
}

template <class T>
__global__ void cross_entropy_gradient(LabelledLogits<T> of, const float* lse_R,
                                       VocabularyWindow window, float scale, T* grad_RV) {
  begin_kernel();
  row_gradient(of, of.row(), lse_R[blockIdx.x], window, scale, grad_RV);
}

template <Reading reading, class T>
__global__ void cross_entropy_both(LabelledLogits<T> of, VocabularyWindow window, float scale,
                                   float* loss_R, float* lse_R, T* grad_RV) {
  begin_kernel();
  const float lse = row_loss<reading>(of, loss_R, lse_R);
  // Each thread reads what it has copied itself.
  const T* const row =
      reading == Reading::kept ? reinterpret_cast<const T*>(dynamic_shared()) : of.row();
  row_gradient(of, row, lse, window, scale, grad_RV);
}

template <class T>
__global__ void logit_max(const T* logits_RV, VocabularyWindow window, bool aligned, float* max_R) {
  begin_kernel();
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
  begin_kernel();
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
  begin_kernel();
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
  begin_kernel();
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
  begin_kernel();
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

/// `written` is the other tensor of such rows, or the logits again.
template <class T>
LabelledLogits<T> labelled(const Tensor& logits, const Tensor& labels, const Tensor& written) {
  const std::int64_t columns = logits.shape.back();
  return {logits.as<T>(), labels.as<std::int32_t>(), columns,
          rows_aligned<T>(columns, logits, written)};
}

}  // namespace

Enqueue prepare_row(const op::CrossEntropy&, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      launch(cross_entropy<T>, row_launch(sizes.rows), stream,
             labelled<T>(operands[0], operands[1], operands[0]), operands[2].as<float>(),
             operands[3].as<float>());
    };
  });
}

Enqueue prepare_chain(const LossAndGradient& chain, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[chain.logits]);
  const VocabularyWindow window{sizes.columns, sizes.columns, 0};
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    const std::int64_t row_bytes = sizes.columns * static_cast<std::int64_t>(sizeof(T));
    const bool fits = row_bytes <= most_kept_bytes;
    if (fits) allow_shared_memory(cross_entropy_both<Reading::kept, T>, most_kept_bytes);
    return [=, scale = static_cast<float>(chain.scale)](Tensors operands, Workspace,
                                                        Stream stream) {
      const LabelledLogits<T> of =
          labelled<T>(operands[chain.logits], operands[chain.labels], operands[chain.logits_grad]);
      const bool keeps = fits && of.aligned;
      LaunchShape shape = row_launch(sizes.rows);
      if (keeps) shape.shared_bytes = static_cast<std::size_t>(row_bytes);
      launch(keeps ? cross_entropy_both<Reading::kept, T> : cross_entropy_both<Reading::again, T>,
             shape, stream, of, window, scale, operands[chain.loss].as<float>(),
             operands[chain.lse].as<float>(), operands[chain.logits_grad].as<T>());
    };
  });
}

Enqueue prepare_row(const op::CrossEntropyGradient& op, const Problem& problem) {
  const LogitSizes sizes(problem.shapes[0]);
  const VocabularyWindow window = vocabulary_window(op, sizes.columns);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, scale = static_cast<float>(op.scale)](Tensors operands, Workspace, Stream stream) {
      launch(cross_entropy_gradient<T>, row_launch(sizes.rows), stream,
             labelled<T>(operands[0], operands[1], operands[3]), operands[2].as<float>(), window,
             scale, operands[3].as<T>());
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
