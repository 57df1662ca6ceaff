// Layer norm, alone and with the residual connection before it, on the device; op::LayerNorm and
// kernels::ResidualNorm say what is computed. R rows, C channels. What `wide` names lies as X, all
// else as T.
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

/// Packs of a row that a lane keeps in registers.
constexpr int most_packs = 4;
constexpr int warps_of_block = few_threads / warp_lanes;

/// gain (C); bias (C) or null. Then what a norm writes; no mean where it is not centred.
template <class T>
struct NormTensors {
  const T *gain_C, *bias_C;
  float epsilon;
  T* y_RC;
  float *mean_R, *rstd_R;

  __device__ bool centred() const { return mean_R != nullptr; }
  __device__ void put(const Statistics& statistics, std::int64_t row) const {
    if (centred()) mean_R[row] = statistics.mean;
    rstd_R[row] = statistics.rstd;
  }
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
  int team = 0;  // warps of a row
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
__device__ PackOf<T, X> put_sum(const Residual<X, T>& of, DroppedElements& decisions,
                                std::int64_t at, Part there, const ResidualPack<X, T>& pack,
                                const PackOf<T, T>& bias) {
  if (of.branch_RC == nullptr) return pack.x;
  float sum[pack_size<T>];
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i)
    sum[i] = of.bias_C != nullptr ? stored<T>(pack.branch[i] + bias[i]) : pack.branch[i];
  if (may_drop && of.drops)
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) sum[i] = stored<T>(of.dropout.apply(decisions, at + i, sum[i]));
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) sum[i] = __fadd_rn(sum[i], pack.x[i]);
  const PackOf<T, X> packs = packs_of<T, X>(sum);
  store_packs<T>(packs, there, of.sum_RC + at);
  return packs;
}

template <class X, class T, class Part>
__device__ void put_normal(const NormTensors<T>& of, std::int64_t at, Part there,
                           const Statistics& statistics, const PackOf<T, X>& x,
                           const PackOf<T, T>& gain, const PackOf<T, T>& bias) {
  float y[pack_size<T>];
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i)
    y[i] = (x[i] - statistics.mean) * statistics.rstd * gain[i] + bias[i];
  store_packs<T>(y, there, of.y_RC + at);
}

__device__ Statistics statistics_of(float mean, float squares, float channels, float epsilon) {
  return {mean, 1 / sqrtf(squares / channels + epsilon)};
}

/// The sum over the warps of a team, warp by warp in order. Every thread of it gets it.
__device__ float team_sum(float value, int team, float (&of_warps)[warps_of_block]) {
  value = warp_sum(value);
  if (team == 1) return value;
  if (lane_index() == 0) of_warps[warp_index()] = value;
  wait_for_warps(warp_index() / team, team);
  const int first = warp_index() / team * team;
  value = 0;
  for (int i = 0; i < team; ++i) value += of_warps[first + i];
  return value;
}

/// A team of warps for a row: two passes over it in registers, so that a large common offset does
/// no harm. `plain`: all packs are whole and nothing drops. All loads of a row are under way before
/// one is used; registers are for four blocks on a multiprocessor, three where rows are wide and a
/// lane holds 48 words of one, two where elements drop.
template <int packs, bool plain, class X, class T>
__global__ void __launch_bounds__(few_threads, !plain                  ? 2
                                               : sizeof(X) > sizeof(T) ? 3
                                                                       : 4)
    norm_rows(NormOf<X, T> of) {
  begin_kernel();
  __shared__ float of_warps[2][warps_of_block];
  const int lanes = of.team * warp_lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * (few_threads / lanes) + threadIdx.x / lanes;
  const bool is_row = row < of.sizes.rows;  // others come to barriers too
  const std::int64_t at = row * of.sizes.channels;
  const auto channels = static_cast<float>(of.sizes.channels);
  DroppedElements decisions =
      !plain && of.residual.drops ? of.residual.dropout.decisions() : DroppedElements({}, 0, 0, 0);
  const auto channel = [&](int p) { return (p * lanes + lane) * pack_size<T>; };
  const auto there = [&](int p) {
    return part_where(is_row, Form<plain, few_threads>::template part<T>(of.sizes, channel(p)));
  };
  ResidualPack<X, T> read[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) read[p].load(of.residual, at + channel(p), there(p));
  PackOf<T, X> sum[packs];
  float mean = 0, squares = 0;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    sum[p] = put_sum<!plain>(of.residual, decisions, at + channel(p), there(p), read[p],
                             load_optional(of.residual.bias_C, channel(p), there(p)));
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there(p).has(i)) mean += sum[p][i];
  }
  mean = of.norm.centred() ? team_sum(mean, of.team, of_warps[0]) / channels : 0;
#pragma unroll
  for (int p = 0; p < packs; ++p)
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there(p).has(i)) squares += (sum[p][i] - mean) * (sum[p][i] - mean);
  squares = team_sum(squares, of.team, of_warps[1]);
  const Statistics statistics = statistics_of(mean, squares, channels, of.norm.epsilon);
#pragma unroll
  for (int p = 0; p < packs; ++p)
    put_normal(of.norm, at + channel(p), there(p), statistics, sum[p],
               load_packs<T>(of.norm.gain_C + channel(p), there(p)),
               load_optional(of.norm.bias_C, channel(p), there(p)));
  if (lane == 0 && is_row) of.norm.put(statistics, row);
}

/// A warp for a row that is too long for a block: read again for each pass.
template <class X, class T>
__global__ void norm_long_row(NormOf<X, T> of) {
  begin_kernel();
  const std::int64_t row = row_of_warp();
  if (row >= of.sizes.rows) return;
  const std::int64_t at = row * of.sizes.channels;
  const auto channels = static_cast<float>(of.sizes.channels);
  const Residual<X, T>& residual = of.residual;
  DroppedElements decisions =
      residual.drops ? residual.dropout.decisions() : DroppedElements({}, 0, 0, 0);
  float mean = 0, squares = 0;
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    ResidualPack<X, T> pack;
    pack.load(residual, at + channel, there);
    const PackOf<T, X> x = put_sum<true>(residual, decisions, at + channel, there, pack,
                                         load_optional(residual.bias_C, channel, there));
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) mean += x[i];
  });
  mean = of.norm.centred() ? warp_sum(mean) / channels : 0;
  // Each lane reads back what it wrote itself.
  const X* const from = residual.branch_RC == nullptr ? residual.x_RC : residual.sum_RC;
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    const PackOf<T, X> pack = load_packs<T>(from + at + channel, there);
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) squares += (pack[i] - mean) * (pack[i] - mean);
  });
  const Statistics statistics = statistics_of(mean, warp_sum(squares), channels, of.norm.epsilon);
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    put_normal(of.norm, at + channel, there, statistics, load_packs<T>(from + at + channel, there),
               load_packs<T>(of.norm.gain_C + channel, there),
               load_optional(of.norm.bias_C, channel, there));
  });
  if (lane_index() == 0) of.norm.put(statistics, row);
}

template <class X, class T>
void enqueue_norm(NormOf<X, T> of, Stream stream) {
  const Residual<X, T>& residual = of.residual;
  of.sizes = sizes_for<T>(of.sizes, residual.x_RC, residual.branch_RC, residual.bias_C,
                          residual.sum_RC, of.norm.gain_C, of.norm.bias_C, of.norm.y_RC);
  const std::int64_t packs = ceil_divide(of.sizes.channels, pack_size<T>);
  for (of.team = 1; of.team * warp_lanes * most_packs < packs;) of.team *= 2;
  if (of.team > warps_of_block)
    return launch(norm_long_row<X, T>, launch_of_warps(of.sizes), stream, of);
  LaunchShape shape;
  shape.threads = few_threads;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(of.sizes.rows, warps_of_block / of.team));
  const std::int64_t packs_of_lane = ceil_divide(packs, of.team * warp_lanes);
  auto* kernel = norm_rows<4, true, X, T>;
  if (packs_of_lane <= 3) kernel = norm_rows<3, true, X, T>;
  if (packs_of_lane <= 2) kernel = norm_rows<2, true, X, T>;
  if (!of.sizes.whole_packs || residual.drops) kernel = norm_rows<most_packs, false, X, T>;
  launch(kernel, shape, stream, of);
}

}  // namespace

Enqueue prepare_row(const op::LayerNorm& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  const DropoutOfTensor none(op::Dropout(), problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(op.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        const NormOperands at(op, 1);
        enqueue_norm(
            NormOf<X, T>{
                {.x_RC = operands[0].as<X>(), .dropout = none},
                {operands[at.gain].as<T>(), optional_operand<T>(operands, at.bias),
                 static_cast<float>(op.epsilon), operands[at.y].as<T>(),
                 optional_operand<float>(operands, at.mean), operands[at.rstd].as<float>()},
                sizes},
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
            NormOf<X, T>{
                {operands[chain.other].as<X>(), operands[chain.branch].as<T>(),
                 optional_operand<T>(operands, chain.branch_bias), drops,
                 drops ? dropout.at(operands, chain.seed, chain.step) : dropout,
                 operands[chain.sum].as<X>()},
                {operands[chain.gain].as<T>(), optional_operand<T>(operands, chain.bias),
                 static_cast<float>(chain.epsilon), operands[chain.y].as<T>(),
                 optional_operand<float>(operands, chain.mean), operands[chain.rstd].as<float>()},
                sizes},
            stream);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
