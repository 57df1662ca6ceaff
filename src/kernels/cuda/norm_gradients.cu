// The way back through a norm and the residual connection before it, on the device, alone and with
// the gradients of the norm's gain and bias and of the branch's bias, in one pass over the rows;
// op::LayerNormGradient, kernels::ResidualNormGradient and kernels::NormGradients say what is
// computed. R rows, C channels. What `wide` names lies as X, all else as T.
//
// Sums over the rows of a stretch stay in the registers of its block; a second launch adds those of
// the stretches. Which rows are summed where depends on the shape alone.
// Sums are taken by norm_gradient_tiles.cuh where a row is made for it, else by what stands here.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/norm_gradient.cuh"
#include "kernels/cuda/norm_gradient_tiles.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

/// All rows of a turn are loaded before one is used. To load the next ones meanwhile takes the
/// registers of a third row, and was no faster.
template <int at_once, bool may_drop, bool sums_rows, class X, class T, class Part>
__device__ void gradients_of_stretch(const NormGradientsOf<X, T>& of, std::int64_t channel,
                                     Part there) {
  constexpr int size = pack_size<T>;
  __shared__ float of_warps[2][most_warps][2 * at_once];
  const std::int64_t channels = of.sizes.channels;
  const float scale = 1 / static_cast<float>(channels);
  const PackOf<T, T> gain = load_packs<T>(of.norm.gain_C + channel, there);
  DroppedElements decisions = may_drop && of.residual.drops ? of.residual.dropout.decisions()
                                                            : DroppedElements({}, 0, 0, 0);
  float sums[sums_of_norm][size] = {};
  const Stretch stretch(of.sizes, of.stretches);
  int turn = 0;  // a block may write the sums of one turn while some of it still reads the other
  for (std::int64_t row = stretch.first; row < stretch.last; row += at_once, turn ^= 1) {
    const auto at = [&](int r) { return (row + r) * channels + channel; };
    RowPack<X, T> packs[at_once];
    Statistics statistics[at_once];
    float of_row[2 * at_once] = {};
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      const bool here = row + r < stretch.last;
      packs[r].load(of, at(r), part_where(here, there));
      statistics[r] = {0, 0};
      if (here) statistics[r] = of.norm.statistics(row + r);
    }
#pragma unroll
    for (int r = 0; r < at_once; ++r)
      packs[r].add_to(of_row[2 * r], of_row[2 * r + 1], statistics[r], gain);
    block_sums(of_row, of_warps[turn]);
#pragma unroll
    for (int r = 0; r < at_once; ++r) {
      if (row + r >= stretch.last) continue;
      float branch_grad[size];
      put_gradient<may_drop>(of.residual, decisions, at(r), there, packs[r], gain, statistics[r],
                             of.norm.average(of_row[2 * r], scale), of_row[2 * r + 1] * scale,
                             branch_grad);
      if constexpr (sums_rows) add_to_sums(sums, packs[r], statistics[r], branch_grad);
    }
  }
  if constexpr (sums_rows)
#pragma unroll
    for (int i = 0; i < sums_of_norm; ++i)
      store_packs<T>(sums[i], there,
                     of.parts + (i * of.stretches + blockIdx.x) * channels + channel);
}

template <class X, class T, class Form, bool sums_rows>
__global__ void __launch_bounds__(Form::threads, Form::blocks(norm_gradient_blocks))
    gradients_of_norms(NormGradientsOf<X, T> of) {
  begin_kernel();
  constexpr int at_once = Form::threads == many_threads ? 1 : sizeof(X) > sizeof(T) ? 2 : 3;
  const std::int64_t channel = static_cast<std::int64_t>(threadIdx.x) * pack_size<T>;
  gradients_of_stretch<at_once, !Form::plain, sums_rows>(of, channel,
                                                         Form::template part<T>(of.sizes, channel));
}

/// A warp for a row that is too long for a block: read twice.
template <class X, class T>
__global__ void gradient_of_long_row(NormGradientsOf<X, T> of) {
  begin_kernel();
  const std::int64_t row = row_of_warp();
  if (row >= of.sizes.rows) return;
  const std::int64_t at = row * of.sizes.channels;
  const Statistics statistics = of.norm.statistics(row);
  DroppedElements decisions =
      of.residual.drops ? of.residual.dropout.decisions() : DroppedElements({}, 0, 0, 0);
  float sum = 0, sum_normal = 0, branch_grad[pack_size<T>];
  RowPack<X, T> pack;
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    pack.load(of, at + channel, there);
    pack.add_to(sum, sum_normal, statistics, load_packs<T>(of.norm.gain_C + channel, there));
  });
  const float scale = 1 / static_cast<float>(of.sizes.channels);
  const float average = of.norm.average(warp_sum(sum), scale),
              average_normal = warp_sum(sum_normal) * scale;
  for_packs_of_lane<T>(of.sizes, [&](std::int64_t channel, PackPart there) {
    pack.load(of, at + channel, there);
    put_gradient<true>(of.residual, decisions, at + channel, there, pack,
                       load_packs<T>(of.norm.gain_C + channel, there), statistics, average,
                       average_normal, branch_grad);
  });
}

/// Requires that a row fits a block where it sums over rows. Gives into how many stretches.
template <bool sums_rows, class X, class T>
std::int64_t enqueue_gradients(NormGradientsOf<X, T> of, Stream stream) {
  of.sizes =
      sizes_for<T>(of.sizes, of.norm.x_RC, of.norm.gain_C, of.norm.y_grad_RC, of.residual.addend_RC,
                   of.residual.sum_grad_RC, of.residual.branch_grad_RC, of.parts);
  if (!fits_a_block(of.sizes, pack_size<T>)) {
    launch(gradient_of_long_row<X, T>, launch_of_warps(of.sizes), stream, of);
    return 0;
  }
  if constexpr (sums_rows)
    if (const auto tiles = tiles_for(of)) return enqueue_tiles(of, *tiles, stream);
  const LaunchShape shape = launch_of_blocks(of.sizes, pack_size<T>, norm_gradient_blocks);
  of.stretches = shape.blocks_x;
  for_form(of.sizes.whole_packs && !of.residual.drops, shape.threads, [&]<class Form>(Form) {
    launch(gradients_of_norms<X, T, Form, sums_rows>, shape, stream, of);
  });
  return of.stretches;
}

/// The tensors of a chain's calls.
class ChainTensors {
 public:
  ChainTensors(const ResidualNormGradient& chain, const Problem& problem)
      : chain_(chain),
        sizes_(norm_sizes(problem.shapes[chain.x])),
        dropout_(chain.dropout.value_or(op::Dropout()), problem.shapes[chain.x]) {}

  template <class X, class T>
  NormGradientsOf<X, T> of(Tensors operands) const {
    const bool drops = chain_.dropout.has_value();
    return {{operands[chain_.x].as<X>(), operands[chain_.gain].as<T>(),
             optional_operand<float>(operands, chain_.mean), operands[chain_.rstd].as<float>(),
             operands[chain_.y_grad].as<T>()},
            {optional_operand<X>(operands, chain_.addend), drops,
             drops ? dropout_.at(operands, chain_.seed, chain_.step) : dropout_,
             operands[chain_.sum_grad].as<X>(), optional_operand<T>(operands, chain_.branch_grad)},
            sizes_};
  }

 private:
  ResidualNormGradient chain_;
  NormSizes sizes_;
  DropoutOfTensor dropout_;
};

int pack_of(DType dtype) {
  return dtype == DType::bf16 ? pack_size<BFloat16> : pack_size<float>;
}

}  // namespace

Enqueue prepare_row(const op::LayerNormGradient& op, const Problem& problem) {
  const NormGradientOperands at(op.centred, 2);
  return prepare_chain(ResidualNormGradient{.x = 0,
                                            .gain = 1,
                                            .rstd = at.rstd,
                                            .y_grad = at.y_grad,
                                            .sum_grad = at.next,
                                            .mean = at.mean,
                                            .wide = op.wide},
                       problem);
}

Enqueue prepare_chain(const ResidualNormGradient& chain, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(chain.wide, [&]<class X>(As<X>) -> Enqueue {
      return [tensors = ChainTensors(chain, problem)](Tensors operands, Workspace, Stream stream) {
        enqueue_gradients<false>(tensors.of<X, T>(operands), stream);
      };
    });
  });
}

bool fits_a_block(const NormGradients& chain, const Problem& problem) {
  return fits_a_block(norm_sizes(problem.shapes[chain.rows.x]), pack_of(problem.dtype));
}

std::int64_t workspace_bytes(const NormGradients& chain, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[chain.rows.x]);
  return sums_of_norm * sizes.channels * static_cast<std::int64_t>(sizeof(float)) *
         launch_of_blocks(sizes, pack_of(problem.dtype), norm_gradient_blocks).blocks_x;
}

Enqueue prepare_chain(const NormGradients& chain, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(chain.rows.wide, [&]<class X>(As<X>) -> Enqueue {
      allow_tiles<X, T>();
      return [chain, tensors = ChainTensors(chain.rows, problem)](
                 Tensors operands, Workspace workspace, Stream stream) {
        NormGradientsOf<X, T> of = tensors.of<X, T>(operands);
        of.parts = reinterpret_cast<float*>(workspace.data());
        const std::int64_t stretches = enqueue_gradients<true>(of, stream);
        const ColumnOutputs<sums_of_norm> outputs{
            {operands[chain.gain_grad].as<float>(),
             optional_operand<float>(operands, chain.bias_grad),
             optional_operand<float>(operands, chain.branch_bias_grad)},
            {chain.accumulate, chain.accumulate, chain.accumulate_branch}};
        enqueue_stretches({of.parts, of.sizes.channels, stretches}, outputs, stream);
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
