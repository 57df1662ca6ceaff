// Layer norm, alone and with the residual connection before it, and the gradients of its input, on
// the device; op::LayerNorm, op::LayerNormGradient, op::AddLayerNorm and op::AddLayerNormGradient
// say what they compute. R rows, C channels. A warp for each row, which it keeps in registers
// between the sums over it and their use, or reads again where it is long. What `wide` names lies
// as X, all else as T.
#include <type_traits>

#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int rows_per_block = 4;
constexpr unsigned norm_threads = rows_per_block * warp_lanes;

LaunchShape norm_launch(const NormSizes& sizes) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.rows, rows_per_block));
  shape.threads = norm_threads;
  return shape;
}

/// The row of the calling warp; may lie after the last one.
__device__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_per_block + warp_index();
}

/// How many channels a lane keeps of its row; 0: it reads them again.
template <int kept>
using Kept = std::integral_constant<int, kept>;

/// use(Kept<>) for rows of so many channels. Rows are kept if they are whole packs. Registers hold
/// no more: a gradient keeps what lies in three tensors.
template <class Use>
void for_kept(const NormSizes& sizes, Use&& use) {
  if (!sizes.whole_packs) return use(Kept<0>{});
  if (sizes.channels <= 32 * warp_lanes) return use(Kept<32>{});
  if (sizes.channels <= 64 * warp_lanes) return use(Kept<64>{});
  return use(Kept<0>{});
}

/// Hands on what was loaded.
struct AsLoaded {
  template <class Loaded, class Part>
  __device__ const Loaded& operator()(const Loaded& loaded, std::int64_t, Part) const {
    return loaded;
  }
};

/// What a lane knows of its row, pack by pack: of(load(first channel, which elements are there),
/// first, which are there), found once for each pack if it is kept, else each time. Of a row that
/// is kept, all is loaded before any of it is used, and `load` neither branches nor stores: the
/// accesses overlap.
template <class T, int kept, class Load, class Of>
class LaneRow {
 public:
  using Loaded = std::invoke_result_t<Load, std::int64_t, PackPart>;
  using Values = std::remove_cvref_t<std::invoke_result_t<Of, Loaded, std::int64_t, PackPart>>;

  __device__ LaneRow(const NormSizes& sizes, const Load& load, const Of& of)
      : sizes_(sizes), load_(load), of_(of) {
    Loaded loaded[most_packs];
    for_kept_packs(
        [&](int pack, std::int64_t first, WholePack there) { loaded[pack] = load_(first, there); });
    for_kept_packs([&](int pack, std::int64_t first, WholePack there) {
      values_[pack] = of_(loaded[pack], first, there);
    });
  }
  /// body(values, first channel, which elements are there)
  template <class Body>
  __device__ void for_packs(Body body) {
    if constexpr (kept > 0) {
      for_kept_packs([&](int pack, std::int64_t first, WholePack there) {
        body(values_[pack], first, there);
      });
    } else {
      for (std::int64_t first = lane_index() * size; first < sizes_.channels;
           first += warp_lanes * size) {
        const PackPart there = part_of_pack<T>(sizes_.channels - first, sizes_.whole_packs);
        body(of_(load_(first, there), first, there), first, there);
      }
    }
  }

 private:
  static constexpr int size = pack_size<T>, packs = kept / size, most_packs = packs > 0 ? packs : 1;

  template <class Body>
  __device__ void for_kept_packs(Body body) {
#pragma unroll
    for (int pack = 0; pack < packs; ++pack) {
      const std::int64_t first = (pack * warp_lanes + lane_index()) * size;
      body(pack, first, WholePack{first < sizes_.channels});
    }
  }

  const NormSizes& sizes_;
  const Load& load_;
  const Of& of_;
  Values values_[most_packs];
};
template <class T, int kept, class Load, class Of = AsLoaded>
__device__ LaneRow<T, kept, Load, Of> lane_row(const NormSizes& sizes, const Load& load,
                                               const Of& of = {}) {
  return {sizes, load, of};
}

/// A pack of channels.
template <class T>
struct Channels {
  float of[pack_size<T>];

  __device__ float operator[](int i) const { return of[i]; }
};

/// Gives the packs of a row that lies in memory.
template <class T, class X>
auto __device__ channels_of(const X* x) {
  return [x](std::int64_t first, auto there) { return load_packs<T>(x + first, there); };
}

/// Two passes, so that a large common offset does no harm.
template <class T, class Row>
__device__ Statistics statistics_of(Row& row, const NormSizes& sizes, float epsilon) {
  const auto channels = static_cast<float>(sizes.channels);
  float sum = 0, squares = 0;
  row.for_packs([&](const auto& x, std::int64_t, auto there) {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) sum += x[i];
  });
  const float mean = warp_sum(sum) / channels;
  row.for_packs([&](const auto& x, std::int64_t, auto there) {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i)) squares += (x[i] - mean) * (x[i] - mean);
  });
  return {mean, 1 / sqrtf(warp_sum(squares) / channels + epsilon)};
}

/// gain (C); bias (C) or null. Then what a norm writes.
template <class T>
struct NormTensors {
  const T *gain_C, *bias_C;
  float epsilon;
  T* y_RC;
  float *mean_R, *rstd_R;
};

/// y = (x - mean) rstd gain + bias of one row, and its statistics.
template <class T, class Row>
__device__ void normalise(const NormTensors<T>& of, const NormSizes& sizes, std::int64_t row,
                          Row& x) {
  const Statistics statistics = statistics_of<T>(x, sizes, of.epsilon);
  x.for_packs([&](const auto& pack, std::int64_t first, auto there) {
    const auto gain = load_packs<T>(of.gain_C + first, there);
    PackOf<T, T> bias;
    if (of.bias_C != nullptr) bias = load_packs<T>(of.bias_C + first, there);
    float values[pack_size<T>];
    for (int i = 0; i < pack_size<T>; ++i)
      values[i] = (pack[i] - statistics.mean) * statistics.rstd * gain[i] + bias[i];
    store_packs<T>(values, there, of.y_RC + row * sizes.channels + first);
  });
  if (lane_index() != 0) return;
  of.mean_R[row] = statistics.mean;
  of.rstd_R[row] = statistics.rstd;
}

template <class X, class T, int kept>
__global__ void layer_norm(const X* x_RC, NormTensors<T> of, NormSizes sizes) {
  const std::int64_t row = row_of_warp();
  if (row >= sizes.rows) return;
  const auto load = channels_of<T>(x_RC + row * sizes.channels);
  auto x = lane_row<T, kept>(sizes, load);
  normalise(of, sizes, row, x);
}

/// What comes before the norm: sum = x + dropout(branch + bias).
template <class X, class T>
struct Residual {
  const X* x_RC;
  const T *branch_RC, *bias_C;  // bias_C may be null
  bool drops;
  DropoutOfTensor dropout;
  X* sum_RC;  // may be branch_RC
};

/// What a lane reads of a row for its sum, as it lies.
template <class X, class T>
struct ResidualPack {
  PackOf<T, X> x;
  PackOf<T, T> branch, bias;
};

/// Gives the packs of a row's sum from what was loaded. Rounds where the parts of the fused row
/// store.
template <class X, class T>
auto __device__ residual_sum(const Residual<X, T>& residual, DroppedElements& decisions,
                             std::int64_t at) {
  return
      [&residual, &decisions, at](const ResidualPack<X, T>& pack, std::int64_t first, auto there) {
        Channels<T> sum;
        const bool has_bias = residual.bias_C != nullptr;
        for (int i = 0; i < pack_size<T>; ++i)
          sum.of[i] = has_bias ? stored<T>(pack.branch[i] + pack.bias[i]) : pack.branch[i];
        if (residual.drops) {
#pragma unroll
          for (int i = 0; i < pack_size<T>; ++i)
            if (there.has(i))
              sum.of[i] = stored<T>(residual.dropout.apply(decisions, at + first + i, sum.of[i]));
        }
        for (int i = 0; i < pack_size<T>; ++i)
          sum.of[i] = stored<X>(__fadd_rn(sum.of[i], pack.x[i]));
        return sum;
      };
}

template <class X, class T, int kept>
__global__ void add_layer_norm(Residual<X, T> residual, NormTensors<T> of, NormSizes sizes) {
  const std::int64_t row = row_of_warp();
  if (row >= sizes.rows) return;
  const std::int64_t at = row * sizes.channels;
  DroppedElements decisions =
      residual.drops ? residual.dropout.decisions() : DroppedElements({}, 0, 0, 0);
  const auto load = [&](std::int64_t first, auto there) {
    ResidualPack<X, T> pack{load_packs<T>(residual.x_RC + at + first, there),
                            load_packs<T>(residual.branch_RC + at + first, there),
                            {}};
    if (residual.bias_C != nullptr) pack.bias = load_packs<T>(residual.bias_C + first, there);
    return pack;
  };
  const auto sum_of = residual_sum(residual, decisions, at);
  auto sum = lane_row<T, kept>(sizes, load, sum_of);
  sum.for_packs([&](const Channels<T>& pack, std::int64_t first, auto there) {
    store_packs<T>(pack.of, there, residual.sum_RC + at + first);
  });
  if constexpr (kept > 0) {
    normalise(of, sizes, row, sum);
  } else {
    // Each lane reads back what it wrote itself.
    const auto load_sum = channels_of<T>(static_cast<const X*>(residual.sum_RC + at));
    auto written = lane_row<T, kept>(sizes, load_sum);
    normalise(of, sizes, row, written);
  }
}

/// What a lane reads of a row for its gradient, as it lies: converted values would take twice the
/// registers.
template <class X, class T>
struct GradientPack {
  PackOf<T, X> x, addend;
  PackOf<T, T> gain, y_grad;

  __device__ float normal(int i, const Statistics& of) const { return (x[i] - of.mean) * of.rstd; }
  __device__ float scaled(int i) const { return y_grad[i] * gain[i]; }
};

/// With n = (x - mean) rstd and d = y_grad gain: x_grad = rstd (d - average(d) - n average(d n)) of
/// one row, handed over pack by pack: use(first, which are there, values, addend). `addend_RC` is
/// null where there is none.
template <int kept, class X, class T, class Use>
__device__ void norm_gradient_of_row(const NormGradient<X, T>& of, const X* addend_RC,
                                     const NormSizes& sizes, std::int64_t row, Use use) {
  const Statistics statistics{of.mean_R[row], of.rstd_R[row]};
  const std::int64_t at = row * sizes.channels;
  const auto load = [&](std::int64_t first, auto there) {
    GradientPack<X, T> pack{load_packs<T>(of.x_RC + at + first, there),
                            {},
                            load_packs<T>(of.gain_C + first, there),
                            load_packs<T>(of.y_grad_RC + at + first, there)};
    if (addend_RC != nullptr) pack.addend = load_packs<T>(addend_RC + at + first, there);
    return pack;
  };
  auto packs = lane_row<T, kept>(sizes, load);
  float sum = 0, sum_normal = 0;
  packs.for_packs([&](const GradientPack<X, T>& pack, std::int64_t, auto there) {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      if (!there.has(i)) continue;
      sum += pack.scaled(i);
      sum_normal += pack.scaled(i) * pack.normal(i, statistics);
    }
  });
  const auto channels = static_cast<float>(sizes.channels);
  const float average = warp_sum(sum) / channels, average_normal = warp_sum(sum_normal) / channels;
  packs.for_packs([&](const GradientPack<X, T>& pack, std::int64_t first, auto there) {
    float values[pack_size<T>];
    for (int i = 0; i < pack_size<T>; ++i)
      values[i] = __fmul_rn(statistics.rstd,
                            pack.scaled(i) - average - pack.normal(i, statistics) * average_normal);
    use(first, there, values, pack.addend);
  });
}

template <class X, class T, int kept>
__global__ void layer_norm_gradient(NormGradient<X, T> of, NormSizes sizes, X* x_grad_RC) {
  const std::int64_t row = row_of_warp();
  if (row >= sizes.rows) return;
  const X* const no_addend = nullptr;
  norm_gradient_of_row<kept>(of, no_addend, sizes, row,
                             [&](std::int64_t first, auto there, const auto& values, const auto&) {
                               store_packs<T>(values, there,
                                              x_grad_RC + row * sizes.channels + first);
                             });
}

template <class X, class T, int kept>
__global__ void add_layer_norm_gradient(NormGradient<X, T> of, ResidualGradient<X, T> residual,
                                        NormSizes sizes) {
  const std::int64_t row = row_of_warp();
  if (row >= sizes.rows) return;
  const std::int64_t at = row * sizes.channels;
  DroppedElements decisions =
      residual.drops ? residual.dropout.decisions() : DroppedElements({}, 0, 0, 0);
  norm_gradient_of_row<kept>(
      of, residual.addend_RC, sizes, row,
      [&](std::int64_t first, auto there, const auto& x_grad, const auto& addend) {
        float branch_grad[pack_size<T>];
        put_gradient<true>(residual, decisions, at + first, there, x_grad, addend, branch_grad);
      });
}

template <class X, class T>
NormGradient<X, T> norm_gradient(Tensors operands) {
  return {operands[0].as<X>(), operands[1].as<T>(), operands[2].as<float>(),
          operands[3].as<float>(), operands[4].as<T>()};
}

}  // namespace

Enqueue prepare_row(const op::LayerNorm& op, const Problem& problem) {
  const NormSizes shape = norm_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(op.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        const std::size_t y = op.bias ? 3 : 2;
        const NormTensors<T> of{operands[1].as<T>(),
                                op.bias ? operands[2].as<T>() : nullptr,
                                static_cast<float>(op.epsilon),
                                operands[y].as<T>(),
                                operands[y + 1].as<float>(),
                                operands[y + 2].as<float>()};
        const NormSizes sizes =
            sizes_for<T>(shape, operands[0].data, of.gain_C, of.bias_C, of.y_RC);
        for_kept(sizes, [&]<int kept>(Kept<kept>) {
          launch(layer_norm<X, T, kept>, norm_launch(sizes), stream, operands[0].as<X>(), of,
                 sizes);
        });
      };
    });
  });
}

Enqueue prepare_row(const op::LayerNormGradient& op, const Problem& problem) {
  const NormSizes shape = norm_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(op.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        const NormSizes sizes = sizes_for<T>(shape, operands[0].data, operands[1].data,
                                             operands[4].data, operands[5].data);
        for_kept(sizes, [&]<int kept>(Kept<kept>) {
          launch(layer_norm_gradient<X, T, kept>, norm_launch(sizes), stream,
                 norm_gradient<X, T>(operands), sizes, operands[5].as<X>());
        });
      };
    });
  });
}

Enqueue prepare_chain(const ResidualNorm& chain, const Problem& problem) {
  const NormSizes shape = norm_sizes(problem.shapes[chain.sum]);
  const bool drops = chain.dropout.has_value();
  const DropoutOfTensor dropout(chain.dropout.value_or(op::Dropout()), problem.shapes[chain.sum]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(chain.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        const Residual<X, T> residual{
            operands[chain.other].as<X>(),
            operands[chain.branch].as<T>(),
            optional_operand<T>(operands, chain.branch_bias),
            drops,
            drops ? dropout.at(operands, chain.seed, chain.step) : dropout,
            operands[chain.sum].as<X>()};
        const NormTensors<T> of{
            operands[chain.gain].as<T>(),      optional_operand<T>(operands, chain.bias),
            static_cast<float>(chain.epsilon), operands[chain.y].as<T>(),
            operands[chain.mean].as<float>(),  operands[chain.rstd].as<float>()};
        const NormSizes sizes =
            sizes_for<T>(shape, residual.x_RC, residual.branch_RC, residual.bias_C, residual.sum_RC,
                         of.gain_C, of.bias_C, of.y_RC);
        for_kept(sizes, [&]<int kept>(Kept<kept>) {
          launch(add_layer_norm<X, T, kept>, norm_launch(sizes), stream, residual, of, sizes);
        });
      };
    });
  });
}

Enqueue prepare_chain(const ResidualNormGradient& chain, const Problem& problem) {
  const NormSizes shape = norm_sizes(problem.shapes[chain.x]);
  const DropoutOfTensor dropout(chain.dropout.value_or(op::Dropout()), problem.shapes[chain.x]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(chain.wide, [&]<class X>(As<X>) -> Enqueue {
      return [=](Tensors operands, Workspace, Stream stream) {
        const auto residual = residual_gradient<X, T>(operands, chain, dropout);
        const auto norm = norm_gradient<X, T>(operands, chain);
        const NormSizes sizes = sizes_for<T>(
            shape, operands[chain.x].data, operands[chain.gain].data, operands[chain.y_grad].data,
            residual.addend_RC, residual.sum_grad_RC, residual.branch_grad_RC);
        for_kept(sizes, [&]<int kept>(Kept<kept>) {
          launch(add_layer_norm_gradient<X, T, kept>, norm_launch(sizes), stream, norm, residual,
                 sizes);
        });
      };
    });
  });
}

}  // namespace fourfold::kernels::cuda
