// The gradients of a norm's input, gain and bias, and of the residual connection and the bias
// before it, in one pass over the rows; kernels::NormGradients says what is computed. R rows, C
// channels.
//
// A block takes a stretch of rows, some at a time. Each of its threads has the same pack of
// channels of every row: sums over rows stay in its registers, sums over channels pass through
// shared memory. The sums of the stretches are added by a second launch. Which rows are summed
// where depends on the shape alone.
#include <algorithm>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int few_threads = 256, many_threads = 1024, most_warps = many_threads / warp_lanes;
/// Gradients of gain, bias and the bias of the branch.
constexpr int sums_of_norm = 3;

unsigned threads_of(std::int64_t channels, int pack) {
  return static_cast<unsigned>(ceil_divide(ceil_divide(channels, pack), warp_lanes) * warp_lanes);
}

/// As many blocks as run at once on a large GPU, and at least 16 rows for each.
std::int64_t stretches_of(const NormSizes& sizes, unsigned threads) {
  constexpr std::int64_t multiprocessors = 132, threads_at_once = 512, least_rows = 16;
  const std::int64_t wanted =
      multiprocessors * std::max<std::int64_t>(threads_at_once / threads, 1);
  return std::clamp<std::int64_t>(sizes.rows / least_rows, 1, wanted);
}

int pack_of(DType dtype) {
  return dtype == DType::bf16 ? pack_size<BFloat16> : pack_size<float>;
}

/// A pack of a row where `here`, else nothing.
__device__ WholePack part_where(bool here, WholePack there) {
  return {there.there && here};
}
__device__ PackPart part_where(bool here, PackPart there) {
  return {here ? there.count : 0, there.whole && here};
}

/// What a thread reads of a row, as it lies; zeros where there is no row.
template <class X, class T>
struct RowPack {
  PackOf<T, X> x, addend;
  PackOf<T, T> y_grad;
  Statistics statistics;

  template <class Part>
  __device__ void load(const NormGradient<X, T>& of, const X* addend_RC, std::int64_t row,
                       std::int64_t at, bool here, Part there) {
    x = load_packs<T>(of.x_RC + at, there);
    y_grad = load_packs<T>(of.y_grad_RC + at, there);
    addend = {};
    if (addend_RC != nullptr) addend = load_packs<T>(addend_RC + at, there);
    statistics = {0, 0};
    if (here) statistics = {of.mean_R[row], of.rstd_R[row]};
  }
  __device__ float normal(int i) const { return (x[i] - statistics.mean) * statistics.rstd; }
};

/// Sums over the channels of a row: of d and of d n, with d = y_grad gain and n the normal x.
struct RowSums {
  float sum, sum_normal;
};

template <class X, class T>
struct NormGradientsOf {
  NormGradient<X, T> norm;
  ResidualGradient<X, T> residual;
  NormSizes sizes;
  std::int64_t stretches;
  float* parts;  // (sums_of_norm, stretches, C)
};

template <int at_once, bool may_drop, class X, class T, class Part>
__device__ void sum_norm_gradients(const NormGradientsOf<X, T>& of, std::int64_t channel,
                                   Part there) {
  constexpr int size = pack_size<T>;
  __shared__ RowSums of_warps[2][most_warps][at_once];
  const std::int64_t channels = of.sizes.channels, stretch = blockIdx.x;
  const std::int64_t first = of.sizes.rows * stretch / of.stretches,
                     last = of.sizes.rows * (stretch + 1) / of.stretches;
  const int warps = static_cast<int>(blockDim.x) / warp_lanes;
  const auto scale = 1 / static_cast<float>(channels);
  const PackOf<T, T> gain = load_packs<T>(of.norm.gain_C + channel, there);
  DroppedElements decisions = may_drop && of.residual.drops ? of.residual.dropout.decisions()
                                                            : DroppedElements({}, 0, 0, 0);
  float sums[sums_of_norm][size] = {};
  int turn = 0;  // a block may write the sums of one turn while some of it still reads the other
  for (std::int64_t row = first; row < last; row += at_once, turn ^= 1) {
    RowPack<X, T> packs[at_once];
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      const bool here = row + r < last;
      packs[r].load(of.norm, of.residual.addend_RC, row + r, (row + r) * channels + channel, here,
                    part_where(here, there));
    }
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      RowSums own{0, 0};
#pragma unroll
      for (int i = 0; i < size; ++i) {
        const float scaled = packs[r].y_grad[i] * gain[i];
        own.sum += scaled;
        own.sum_normal += scaled * packs[r].normal(i);
      }
      own = {warp_sum(own.sum), warp_sum(own.sum_normal)};
      if (lane_index() == 0) of_warps[turn][warp_index()][r] = own;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (row + r >= last) continue;
      RowSums total{0, 0};
      for (int warp = 0; warp < warps; ++warp) {
        total.sum += of_warps[turn][warp][r].sum;
        total.sum_normal += of_warps[turn][warp][r].sum_normal;
      }
      const float average = total.sum * scale, average_normal = total.sum_normal * scale;
      float x_grad[size], branch_grad[size];
#pragma unroll
      for (int i = 0; i < size; ++i) {
        const float normal = packs[r].normal(i), grad = packs[r].y_grad[i];
        x_grad[i] =
            __fmul_rn(packs[r].statistics.rstd, grad * gain[i] - average - normal * average_normal);
        sums[0][i] += grad * normal;
        sums[1][i] += grad;
      }
      put_gradient<may_drop>(of.residual, decisions, (row + r) * channels + channel, there, x_grad,
                             packs[r].addend, branch_grad);
#pragma unroll
      for (int i = 0; i < size; ++i) sums[2][i] += stored<T>(branch_grad[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < sums_of_norm; ++i)
    store_packs<T>(sums[i], there, of.parts + (i * of.stretches + stretch) * channels + channel);
}

/// How a kernel is made: `plain`, where all packs are whole and nothing drops; for blocks of so
/// many threads, of which two shall fit on a multiprocessor where it is plain and they are few.
template <bool is_plain, int most_threads>
struct Form {
  static constexpr bool plain = is_plain;
  static constexpr int threads = most_threads;
};
template <class X, class T, class Form>
__global__ void __launch_bounds__(Form::threads, Form::plain&& Form::threads == few_threads ? 2 : 1)
    norm_gradients_of_rows(NormGradientsOf<X, T> of) {
  const std::int64_t channel = static_cast<std::int64_t>(threadIdx.x) * pack_size<T>;
  const std::int64_t left = of.sizes.channels - channel;
  // Rows under way: as many as registers hold.
  constexpr int at_once = Form::threads == many_threads ? 1 : sizeof(X) > sizeof(T) ? 2 : 3;
  if constexpr (Form::plain)
    sum_norm_gradients<at_once, false>(of, channel, WholePack{left > 0});
  else
    sum_norm_gradients<at_once, true>(
        of, channel, PackPart{left < 0 ? 0 : left, of.sizes.whole_packs && left > 0});
}

/// use(Form<>) for a call.
template <class Use>
void for_form(bool plain, unsigned threads, Use use) {
  if (threads <= few_threads)
    plain ? use(Form<true, few_threads>()) : use(Form<false, few_threads>());
  else
    plain ? use(Form<true, many_threads>()) : use(Form<false, many_threads>());
}

}  // namespace

bool fits_a_block(const NormGradients& chain, const Problem& problem) {
  return threads_of(norm_sizes(problem.shapes[chain.rows.x]).channels, pack_of(problem.dtype)) <=
         many_threads;
}

std::int64_t workspace_bytes(const NormGradients& chain, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[chain.rows.x]);
  return sums_of_norm * stretches_of(sizes, threads_of(sizes.channels, pack_of(problem.dtype))) *
         sizes.channels * static_cast<std::int64_t>(sizeof(float));
}

Enqueue prepare_chain(const NormGradients& chain, const Problem& problem) {
  const NormSizes shape = norm_sizes(problem.shapes[chain.rows.x]);
  const DropoutOfTensor dropout(chain.rows.dropout.value_or(op::Dropout()),
                                problem.shapes[chain.rows.x]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(chain.rows.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace workspace, Stream stream) {
        LaunchShape launch_shape;
        launch_shape.threads = threads_of(shape.channels, pack_size<T>);
        const std::int64_t stretches = stretches_of(shape, launch_shape.threads);
        launch_shape.blocks_x = static_cast<unsigned>(stretches);
        NormGradientsOf<X, T> of{norm_gradient<X, T>(operands, chain.rows),
                                 residual_gradient<X, T>(operands, chain.rows, dropout), shape,
                                 stretches, reinterpret_cast<float*>(workspace.data())};
        of.sizes = sizes_for<T>(shape, of.norm.x_RC, of.norm.gain_C, of.norm.y_grad_RC,
                                of.residual.addend_RC, of.residual.sum_grad_RC,
                                of.residual.branch_grad_RC, of.parts);
        for_form(of.sizes.whole_packs && !of.residual.drops, launch_shape.threads,
                 [&]<class Form>(Form) {
                   launch(norm_gradients_of_rows<X, T, Form>, launch_shape, stream, of);
                 });
        const ColumnOutputs<sums_of_norm> outputs{
            {operands[chain.gain_grad].as<float>(),
             optional_operand<float>(operands, chain.bias_grad),
             optional_operand<float>(operands, chain.branch_bias_grad)},
            {chain.accumulate, chain.accumulate, chain.accumulate_branch}};
        enqueue_stretches(of.parts, shape.channels, stretches, outputs, stream);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
