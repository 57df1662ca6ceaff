// Layer norm, alone and with the residual connection before it, on the device; op::LayerNorm and
// kernels::ResidualNorm say what is computed. R rows, C channels. What `wide` names lies as X, all
// else as T.
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

/// How many blocks of few_threads shall be on a multiprocessor.
constexpr int blocks_at_once = 3;

/// gain (C); bias (C) or null. Then what a norm writes.
template <class T>
struct NormTensors {
  const T *gain_C, *bias_C;
  float epsilon;
  T* y_RC;
  float *mean_R, *rstd_R;
};

/// What is normalised: sum = x + dropout(branch + bias), or x where there is no branch.
template <class X, class T>
struct Residual {
  const X* x_RC;
  const T *branch_RC = nullptr, *bias_C = nullptr;  // may be null
  bool drops = false;
  DropoutOfTensor dropout;
  X* sum_RC = nullptr;  // of a branch; may be branch_RC
};

template <class X, class T>
struct NormOf {
  Residual<X, T> residual;
  NormTensors<T> norm;
  NormSizes sizes;
  std::int64_t stretches;
};

/// What is read of a row for a pack of its sum, as it lies.
template <class X, class T>
struct ResidualPack {
  PackOf<T, X> x;
  PackOf<T, T> branch;

  template <class Part>
  __device__ void load(const Residual<X, T>& of, std::int64_t at, Part there) {
    x = load_packs<T>(of.x_RC + at, there);
    branch = {};
    if (of.branch_RC != nullptr) branch = load_packs<T>(of.branch_RC + at, there);
  }
};

template <class T, class Part>
__device__ PackOf<T, T> load_optional(const T* from, std::int64_t channel, Part there) {
  PackOf<T, T> pack;
  if (from != nullptr) pack = load_packs<T>(from + channel, there);
  return pack;
}

/// A pack of the sum at the place `at` of the tensor, which is written where there is a branch.
/// Rounds where the parts of the fused row store. Requires `may_drop` where the residual drops.
template <bool may_drop, class X, class T, class Part>
__device__ void put_sum(const Residual<X, T>& of, DroppedElements& decisions, std::int64_t at,
                        Part there, const ResidualPack<X, T>& pack, const PackOf<T, T>& bias,
                        float (&sum)[pack_size<T>]) {
  if (of.branch_RC == nullptr) {
    for (int i = 0; i < pack_size<T>; ++i) sum[i] = pack.x[i];
    return;
  }
  for (int i = 0; i < pack_size<T>; ++i)
    sum[i] = of.bias_C != nullptr ? stored<T>(pack.branch[i] + bias[i]) : pack.branch[i];
  if (may_drop && of.drops)
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) sum[i] = stored<T>(of.dropout.apply(decisions, at + i, sum[i]));
  for (int i = 0; i < pack_size<T>; ++i) sum[i] = stored<X>(__fadd_rn(sum[i], pack.x[i]));
  store_packs<T>(sum, there, of.sum_RC + at);
}

template <class T, class Part>
__device__ void put_normal(const NormTensors<T>& of, std::int64_t at, Part there,
                           const Statistics& statistics, const float (&x)[pack_size<T>],
                           const PackOf<T, T>& gain, const PackOf<T, T>& bias) {
  float y[pack_size<T>];
  for (int i = 0; i < pack_size<T>; ++i)
    y[i] = (x[i] - statistics.mean) * statistics.rstd * gain[i] + bias[i];
  store_packs<T>(y, there, of.y_RC + at);
}

__device__ Statistics statistics_of(float mean, float squares, float channels, float epsilon) {
  return {mean, 1 / sqrtf(squares / channels + epsilon)};
}

/// Two passes over a row in registers, so that a large common offset does no harm. The next rows
/// are loaded while these are summed.
template <int at_once, bool may_drop, class X, class T, class Part>
__device__ void norm_stretch(const NormOf<X, T>& of, std::int64_t channel, Part there) {
  constexpr int size = pack_size<T>;
  __shared__ float of_warps[2][most_warps][at_once];
  const auto channels = static_cast<float>(of.sizes.channels);
  const PackOf<T, T> gain = load_packs<T>(of.norm.gain_C + channel, there),
                     bias = load_optional(of.norm.bias_C, channel, there),
                     branch_bias = load_optional(of.residual.bias_C, channel, there);
  DroppedElements decisions = may_drop && of.residual.drops ? of.residual.dropout.decisions()
                                                            : DroppedElements({}, 0, 0, 0);
  const Stretch stretch(of.sizes, of.stretches);
  ResidualPack<X, T> packs[at_once];
  const auto load = [&](std::int64_t first) {
#pragma unroll
    for (int r = 0; r < at_once; ++r)
      packs[r].load(of.residual, (first + r) * of.sizes.channels + channel,
                    part_where(first + r < stretch.last, there));
  };
  load(stretch.first);
  for (std::int64_t row = stretch.first; row < stretch.last; row += at_once) {
    const auto at = [&](int r) { return (row + r) * of.sizes.channels + channel; };
    float sum[at_once][size], means[at_once], squares[at_once];
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      put_sum<may_drop>(of.residual, decisions, at(r), part_where(row + r < stretch.last, there),
                        packs[r], branch_bias, sum[r]);
      means[r] = 0;
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (there.has(i)) means[r] += sum[r][i];
    }
    load(row + at_once);
    block_sums(means, of_warps[0]);
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      means[r] /= channels;
      squares[r] = 0;
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (there.has(i)) squares[r] += (sum[r][i] - means[r]) * (sum[r][i] - means[r]);
    }
    block_sums(squares, of_warps[1]);
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (row + r >= stretch.last) continue;
      const Statistics statistics = statistics_of(means[r], squares[r], channels, of.norm.epsilon);
      put_normal(of.norm, at(r), there, statistics, sum[r], gain, bias);
      if (threadIdx.x != 0) continue;
      of.norm.mean_R[row + r] = statistics.mean;
      of.norm.rstd_R[row + r] = statistics.rstd;
    }
  }
}

template <class X, class T, class Form>
__global__ void __launch_bounds__(Form::threads, Form::blocks(blocks_at_once))
    norm_rows(NormOf<X, T> of) {
  constexpr int at_once = Form::threads == many_threads ? 1 : 2;
  const std::int64_t channel = static_cast<std::int64_t>(threadIdx.x) * pack_size<T>;
  norm_stretch<at_once, !Form::plain>(of, channel, Form::template part<T>(of.sizes, channel));
}

/// A warp for a row that is too long for a block: read again for each pass.
template <class X, class T>
__global__ void norm_long_row(NormOf<X, T> of) {
  const std::int64_t row = row_of_warp();
  if (row >= of.sizes.rows) return;
  const std::int64_t at = row * of.sizes.channels;
  const auto channels = static_cast<float>(of.sizes.channels);
  const Residual<X, T>& residual = of.residual;
  DroppedElements decisions =
      residual.drops ? residual.dropout.decisions() : DroppedElements({}, 0, 0, 0);
  float mean = 0, squares = 0, x[pack_size<T>];
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    ResidualPack<X, T> pack;
    pack.load(residual, at + channel, there);
    put_sum<true>(residual, decisions, at + channel, there, pack,
                  load_optional(residual.bias_C, channel, there), x);
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) mean += x[i];
  });
  mean = warp_sum(mean) / channels;
  // Each lane reads back what it wrote itself.
  const X* const from = residual.branch_RC == nullptr ? residual.x_RC : residual.sum_RC;
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    const PackOf<T, X> pack = load_packs<T>(from + at + channel, there);
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) squares += (pack[i] - mean) * (pack[i] - mean);
  });
  const Statistics statistics = statistics_of(mean, warp_sum(squares), channels, of.norm.epsilon);
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    const PackOf<T, X> pack = load_packs<T>(from + at + channel, there);
    for (int i = 0; i < pack_size<T>; ++i) x[i] = pack[i];
    put_normal(of.norm, at + channel, there, statistics, x,
               load_packs<T>(of.norm.gain_C + channel, there),
               load_optional(of.norm.bias_C, channel, there));
  });
  if (lane_index() != 0) return;
  of.norm.mean_R[row] = statistics.mean;
  of.norm.rstd_R[row] = statistics.rstd;
}

template <class X, class T>
void enqueue_norm(NormOf<X, T> of, Stream stream) {
  const Residual<X, T>& residual = of.residual;
  of.sizes = sizes_for<T>(of.sizes, residual.x_RC, residual.branch_RC, residual.bias_C,
                          residual.sum_RC, of.norm.gain_C, of.norm.bias_C, of.norm.y_RC);
  if (!fits_a_block(of.sizes, pack_size<T>))
    return launch(norm_long_row<X, T>, launch_of_warps(of.sizes), stream, of);
  const LaunchShape shape = launch_of_blocks(of.sizes, pack_size<T>, blocks_at_once);
  of.stretches = shape.blocks_x;
  for_form(of.sizes.whole_packs && !residual.drops, shape.threads,
           [&]<class Form>(Form) { launch(norm_rows<X, T, Form>, shape, stream, of); });
}

}  // namespace

Enqueue prepare_row(const op::LayerNorm& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  const DropoutOfTensor none(op::Dropout(), problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(op.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        const std::size_t y = op.bias ? 3 : 2;
        enqueue_norm(NormOf<X, T>{{.x_RC = operands[0].as<X>(), .dropout = none},
                                  {operands[1].as<T>(), op.bias ? operands[2].as<T>() : nullptr,
                                   static_cast<float>(op.epsilon), operands[y].as<T>(),
                                   operands[y + 1].as<float>(), operands[y + 2].as<float>()},
                                  sizes,
                                  0},
                     stream);
      };
    });
  });
}

Enqueue prepare_chain(const ResidualNorm& chain, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[chain.sum]);
  const bool drops = chain.dropout.has_value();
  const DropoutOfTensor dropout(chain.dropout.value_or(op::Dropout()), problem.shapes[chain.sum]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(chain.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        enqueue_norm(
            NormOf<X, T>{{operands[chain.other].as<X>(), operands[chain.branch].as<T>(),
                          optional_operand<T>(operands, chain.branch_bias), drops,
                          drops ? dropout.at(operands, chain.seed, chain.step) : dropout,
                          operands[chain.sum].as<X>()},
                         {operands[chain.gain].as<T>(), optional_operand<T>(operands, chain.bias),
                          static_cast<float>(chain.epsilon), operands[chain.y].as<T>(),
                          operands[chain.mean].as<float>(), operands[chain.rstd].as<float>()},
                         sizes,
                         0},
            stream);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
