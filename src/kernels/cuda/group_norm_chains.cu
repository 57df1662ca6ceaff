// Group norms with what follows them, and the way back, each in as few passes over memory as there
// are sums to wait for; kernels/norm_chains.h says what the chains are. Letters as in
// op/group_norm.h.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/group_norm.cuh"
#include "kernels/cuda/group_norm_moments.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

/// make(constant, constant) for two booleans.
template <class Make>
Enqueue for_two(bool first, bool second, Make make) {
  using std::false_type, std::true_type;
  if (first) return second ? make(true_type(), true_type()) : make(true_type(), false_type());
  return second ? make(false_type(), true_type()) : make(false_type(), false_type());
}

/// The dropout of a chain, before a call.
struct PreparedDropout {
  PackDropout dropout;
  std::optional<ChainDropout> places;

  PreparedDropout(const std::optional<ChainDropout>& of, const Shape& x)
      : dropout(of ? of->row : op::Dropout(), x), places(of) {}
  bool is_on() const { return places && places->row.rate > 0; }
  PackDropout at(Tensors operands) const {
    PackDropout bound = dropout;
    if (places) bound.dropout = dropout.dropout.at(operands, places->seed, places->step);
    return bound;
  }
};

// --- forward

template <class T, bool modulated, bool drops>
struct NormAndSiluBody {
  struct Channels {
    NormOfPack<T> norm;
    ModulationOfPack<T> modulation;
  };
  GroupStatistics statistics;
  const T *gain_C, *bias_C, *modulation_B2C;
  std::int64_t width;
  PackDropout dropout;

  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    Channels kept{NormOfPack<T>(statistics, gain_C, bias_C, sample, channel, count), {}};
    if constexpr (modulated)
      kept.modulation = ModulationOfPack<T>(modulation_B2C, width, sample, channel, count);
    return kept;
  }
  template <int size>
  __device__ void compute(const Channels& kept, std::int64_t element, const float (&x)[1][size],
                          float (&y)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) {
      float value = stored<T>(kept.norm.apply(i, x[0][i]));
      if constexpr (modulated) value = stored<T>(kept.modulation.apply(i, value));
      y[i] = kernels::element(Math(), op::Silu(), value);
    }
    if constexpr (drops) {
#pragma unroll
      for (int i = 0; i < size; ++i) y[i] = stored<T>(y[i]);
      DroppedElements decisions = dropout.dropout.decisions();
      dropout.apply(decisions, element, y);
    }
  }
};

template <class T>
struct BiasAndSumBody {
  struct Channels {
    OfPack<T> bias = {};
  };
  const T* bias_C;
  bool bias_first;

  __device__ Channels channels(std::int64_t, int channel, int count) const {
    Channels kept;
    for (int i = 0; i < count; ++i) kept.bias[i] = to_float(bias_C[channel + i]);
    return kept;
  }
  template <int size>
  __device__ void compute(const Channels& kept, std::int64_t, const float (&in)[2][size],
                          float (&x)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const float first = bias_first ? kept.bias[i] : in[1][i],
                  second = bias_first ? in[1][i] : kept.bias[i];
      x[i] = stored<T>(in[0][i] + first) + second;
    }
  }
};

// --- backward: sums

/// What follows the sums of a chain.
template <class T>
struct SumsOutputs {
  StretchNumbers numbers;
  GroupStatistics statistics;
  const T* gain_C;
  float *sums_CB2, *statistics_grad_BG2, *gain_grad_C, *bias_grad_C;
  T* modulation_grad_B2C;  // null without a modulation
  bool accumulate;
};

/// A block for each sample, whose groups it sums; then one for each warp's channels, whose samples
/// it sums.
template <class T>
__global__ void __launch_bounds__(pixel_threads) finish_sums(SumsOutputs<T> of) {
  begin_kernel();
  const StretchNumbers& numbers = of.numbers;
  const std::int64_t samples = numbers.samples, channels = numbers.channels;
  if (blockIdx.x < samples) {
    const std::int64_t sample = blockIdx.x;
    for (std::int64_t channel = threadIdx.x; channel < channels; channel += pixel_threads) {
      float* const sums = of.sums_CB2 + (channel * samples + sample) * 2;
      sums[0] = numbers.total(0, sample, channel);
      sums[1] = numbers.total(1, sample, channel);
      if (of.modulation_grad_B2C == nullptr) continue;
      for (int i = 0; i < 2; ++i)
        of.modulation_grad_B2C[(2 * sample + i) * channels + channel] =
            from_float<T>(numbers.total(2 + i, sample, channel));
    }
    __syncthreads();
    const std::int64_t groups = of.statistics.groups.groups;
    for (std::int64_t group = threadIdx.x; group < groups; group += pixel_threads) {
      const std::int64_t at = (sample * groups + group) * 2;
      group_sums(of.sums_CB2, of.gain_C, of.statistics.statistics_BG2 + at, samples, sample, group,
                 of.statistics.groups, channels, of.statistics_grad_BG2 + at);
    }
    return;
  }
  const std::int64_t channel = (blockIdx.x - samples) * warp_lanes + lane_index();
  sum_over_samples(
      samples, channel, channels, of.accumulate,
      [&](std::int64_t sample, float(&of_sample)[2]) {
        of_sample[0] = numbers.total(0, sample, channel);
        of_sample[1] = numbers.total(1, sample, channel);
      },
      of.gain_grad_C, of.bias_grad_C);
}

// --- backward: the gradient of x

/// Visitor that makes x_grad; with `silu` the gradient is that of the norm's SiLU, and with
/// `has_biases` it sums what it stores.
template <class T, bool silu, bool has_biases>
struct GradientVisitor {
  struct Loaded {
    PackOf<T, T> x, grad, addend, later_addend;
  };
  const T *x_BPC, *grad_BPC, *addend_BPC, *later_addend_BPC;  // the last two may be null
  T* x_grad_BPC;
  NormOfPack<T> norm;  // without silu: gain and rstd alone
  MomentsGradientOfPack<T> moments;
  float sum[1][pack_size<T>];

  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    Loaded loaded;
    loaded.x = load_packs<T>(x_BPC + element, part);
    loaded.grad = load_packs<T>(grad_BPC + element, part);
    if (addend_BPC != nullptr) loaded.addend = load_packs<T>(addend_BPC + element, part);
    if (later_addend_BPC != nullptr)
      loaded.later_addend = load_packs<T>(later_addend_BPC + element, part);
    return loaded;
  }
  template <class Part>
  __device__ void take(std::int64_t element, const Loaded& of, Part part) {
    float x_grad[pack_size<T>];
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      float y_grad = of.grad[i];
      if constexpr (silu) {
        const float y = stored<T>(norm.apply(i, of.x[i]));
        y_grad = stored<T>(kernels::element(Math(), op::SiluGradient(), y, y_grad));
      }
      float direct = stored<T>(y_grad * (norm.gain[i] * norm.rstd[i]));
      if (addend_BPC != nullptr) direct = stored<T>(__fadd_rn(of.addend[i], direct));
      x_grad[i] = stored<T>(__fadd_rn(direct, stored<T>(moments.gradient(i, of.x[i]))));
      if (later_addend_BPC != nullptr)
        x_grad[i] = stored<T>(__fadd_rn(x_grad[i], of.later_addend[i]));
      if constexpr (has_biases) sum[0][i] += x_grad[i];
    }
    store_packs<T>(x_grad, part, x_grad_BPC + element);
  }
};

template <class T>
struct GradientOperands {
  const T *x_BPC, *grad_BPC, *addend_BPC, *later_addend_BPC, *gain_C;
  const T* bias_C;  // with silu
  T* x_grad_BPC;
  GroupStatistics statistics;
  const float *statistics_grad_BG2, *moments_CB2;
  float pixels;  // as the row says, of whole channels
};

/// For two blocks on a multiprocessor, of 128 registers a thread: with silu nvcc would take 160,
/// and one block has few loads under way.
template <class T, bool silu, bool has_biases>
__global__ void __launch_bounds__(pixel_threads, 2)
    make_gradient(PixelBlocks blocks, bool aligned, GradientOperands<T> of,
                  StretchNumbers numbers) {
  begin_kernel();
  const OwnPixels<T> own(blocks);
  GradientVisitor<T, silu, has_biases> visitor{
      of.x_BPC,
      of.grad_BPC,
      of.addend_BPC,
      of.later_addend_BPC,
      of.x_grad_BPC,
      NormOfPack<T>(of.statistics, of.gain_C, silu ? of.bias_C : nullptr, own.sample, own.channel,
                    own.count),
      {},
      {}};
  of.statistics.for_channels(own.sample, own.channel, own.count, [&](int i, const float* group) {
    const std::int64_t channel = own.channel + i;
    const float* const moments = of.moments_CB2 + (channel * blocks.sizes.samples + own.sample) * 2;
    float moments_grad[2];
    channel_moments_gradient(group, of.statistics_grad_BG2 + (group - of.statistics.statistics_BG2),
                             moments, of.statistics.groups.of_group, of.pixels, moments_grad);
    visitor.moments.set(i, moments, moments_grad, static_cast<float>(blocks.sizes.pixels));
  });
  if (own.count > 0) go_over_pixels<2>(own, blocks, aligned, visitor);
  if constexpr (has_biases)
    add_up_rows<1>(own, blocks, visitor.sum, [&](int channel, const float(&totals)[1]) {
      numbers.at(0, own.stretch, own.sample, channel) = totals[0];
    });
}

/// The gradients of biases, which are all sums of the same numbers.
void enqueue_biases(const std::vector<NormGradientOfX::Bias>& biases, const StretchParts& parts,
                    Tensors operands, Stream stream) {
  constexpr std::size_t at_once = 2;
  for (std::size_t first = 0; first < biases.size(); first += at_once) {
    ColumnOutputs<at_once> outputs{};
    const std::size_t count = std::min(at_once, biases.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      outputs.sum[i] = operands[biases[first + i].gradient].as<float>();
      outputs.accumulate[i] = biases[first + i].accumulate;
    }
    enqueue_stretches(parts, outputs, stream);
  }
}

}  // namespace

bool fits_packs(const std::optional<ChainDropout>& dropout, const Shape& x, DType dtype) {
  return !dropout || PackDropout(dropout->row, x).fits(x, 16 / static_cast<int>(size_bytes(dtype)));
}

std::int64_t workspace_bytes(const NormStatistics& chain, const Problem& problem) {
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[chain.of.x]), problem.dtype, 2);
}

Enqueue prepare_chain(const NormStatistics& chain, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[chain.of.x]);
  NormParts<float> parts{};
  for (std::size_t i = 0; i < chain.parts.size(); ++i)
    parts.channels[i] = problem.shapes[chain.parts[i]][0];
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_two(
        chain.of.bias.has_value(), chain.of.other.has_value(),
        [&]<class Biased, class Summed>(Biased, Summed) -> Enqueue {
          return [chain, sizes, parts](Tensors operands, Workspace workspace, Stream stream) {
            MergedGroups groups{parts, chain.row.groups, static_cast<float>(chain.row.pixels),
                                static_cast<float>(chain.row.epsilon),
                                operands[chain.statistics].as<float>()};
            for (std::size_t i = 0; i < chain.parts.size(); ++i)
              groups.parts.moments_CB2[i] = operands[chain.parts[i]].as<float>();
            const BiasAndSum& of = chain.of;
            const MomentSource<T, Biased::value, Summed::value> source{
                operands[of.in].as<T>(), of.bias ? operands[*of.bias].as<T>() : nullptr,
                of.other ? operands[*of.other].as<T>() : nullptr, operands[of.x].as<T>(),
                of.bias_first};
            enqueue_moments<T>(source, sizes, operands[chain.moments].as<float>(), groups,
                               workspace, stream);
          };
        });
  });
}

Enqueue prepare_chain(const BiasAndSum& chain, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [chain, sizes = pixel_sizes(problem.shapes[chain.x])](Tensors operands, Workspace,
                                                                 Stream stream) {
      enqueue_pixel_map<T, 2>(sizes, {operands[chain.in].as<T>(), operands[*chain.other].as<T>()},
                              operands[chain.x].as<T>(),
                              BiasAndSumBody<T>{operands[*chain.bias].as<T>(), chain.bias_first},
                              stream);
    };
  });
}

Enqueue prepare_chain(const NormAndSilu& chain, const Problem& problem) {
  const Shape& x = problem.shapes[chain.x];
  const PreparedDropout dropout(chain.dropout, x);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_two(chain.modulation.has_value(), dropout.is_on(),
                   [&]<class Modulated, class Drops>(Modulated, Drops) -> Enqueue {
                     return [chain, dropout, sizes = pixel_sizes(x)](Tensors operands, Workspace,
                                                                     Stream stream) {
                       const NormAndSiluBody<T, Modulated::value, Drops::value> body{
                           {operands[chain.statistics].as<float>(), channel_groups(chain.row)},
                           operands[chain.gain].as<T>(),
                           operands[chain.bias].as<T>(),
                           chain.modulation ? operands[*chain.modulation].as<T>() : nullptr,
                           sizes.channels,
                           dropout.at(operands)};
                       enqueue_pixel_map<T, 1>(sizes, {operands[chain.x].as<T>()},
                                               operands[chain.y].as<T>(), body, stream);
                     };
                   });
  });
}

std::int64_t workspace_bytes(const NormSumsOfGradient& chain, const Problem& problem) {
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[chain.x]), problem.dtype,
                             chain.modulation ? 4 : 2);
}

Enqueue prepare_chain(const NormSumsOfGradient& chain, const Problem& problem) {
  const Shape& x = problem.shapes[chain.x];
  const PreparedDropout dropout(chain.dropout, x);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_two(
        chain.silu.has_value(), chain.modulation.has_value(),
        [&]<class Silu, class Modulated>(Silu, Modulated) -> Enqueue {
          return [chain, dropout, sizes = pixel_sizes(x)](Tensors operands, Workspace workspace,
                                                          Stream stream) {
            const GroupStatistics statistics{operands[chain.statistics].as<float>(),
                                             channel_groups(chain.row)};
            const PixelBlocks blocks = pixel_blocks<T>(sizes);
            const T* const gain = operands[chain.gain].as<T>();
            const NormSumTerms<T, Silu::value, Silu::value && Modulated::value> terms{
                operands[chain.x].as<T>(),
                operands[chain.grad].as<T>(),
                chain.silu && chain.silu->y_grad ? operands[*chain.silu->y_grad].as<T>() : nullptr,
                statistics,
                gain,
                chain.silu ? operands[chain.silu->bias].as<T>() : nullptr,
                chain.modulation ? operands[chain.modulation->of].as<T>() : nullptr,
                sizes.channels,
                {dropout.at(operands), dropout.is_on()}};
            enqueue_pixel_sums(blocks, terms, workspace, stream);
            LaunchShape shape;
            shape.blocks_x =
                static_cast<unsigned>(sizes.samples + ceil_divide(sizes.channels, warp_lanes));
            shape.threads = pixel_threads;
            launch(
                finish_sums<T>, shape, stream,
                SumsOutputs<T>{
                    StretchNumbers(blocks, workspace), statistics, gain,
                    operands[chain.sums].as<float>(), operands[chain.statistics_grad].as<float>(),
                    operands[chain.gain_grad].as<float>(), operands[chain.bias_grad].as<float>(),
                    chain.modulation ? operands[chain.modulation->gradient].as<T>() : nullptr,
                    chain.accumulate});
          };
        });
  });
}

std::int64_t workspace_bytes(const NormGradientOfX& chain, const Problem& problem) {
  if (chain.biases.empty()) return 0;
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[chain.x]), problem.dtype, 1);
}

Enqueue prepare_chain(const NormGradientOfX& chain, const Problem& problem) {
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_two(chain.silu_bias.has_value(), !chain.biases.empty(),
                   [&]<class Silu, class HasBiases>(Silu, HasBiases) -> Enqueue {
                     return [chain, sizes = pixel_sizes(problem.shapes[chain.x])](
                                Tensors operands, Workspace workspace, Stream stream) {
                       const auto optional = [&](const std::optional<std::size_t>& operand) {
                         return operand ? operands[*operand].as<T>() : nullptr;
                       };
                       const GradientOperands<T> of{
                           operands[chain.x].as<T>(),
                           operands[chain.grad].as<T>(),
                           optional(chain.addend),
                           optional(chain.later_addend),
                           operands[chain.gain].as<T>(),
                           optional(chain.silu_bias),
                           operands[chain.x_grad].as<T>(),
                           {operands[chain.statistics].as<float>(), channel_groups(chain.row)},
                           operands[chain.statistics_grad].as<float>(),
                           operands[chain.moments].as<float>(),
                           static_cast<float>(chain.row.pixels)};
                       const PixelBlocks blocks = pixel_blocks<T>(sizes);
                       const StretchNumbers numbers =
                           HasBiases::value ? StretchNumbers(blocks, workspace) : StretchNumbers();
                       launch(make_gradient<T, Silu::value, HasBiases::value>,
                              blocks.launch_shape(), stream, blocks,
                              are_whole_packs<T>(sizes, of.x_BPC, of.grad_BPC, of.addend_BPC,
                                                 of.later_addend_BPC, of.x_grad_BPC),
                              of, numbers);
                       if constexpr (HasBiases::value)
                         enqueue_biases(chain.biases,
                                        {numbers.numbers, sizes.channels,
                                         numbers.stretches * sizes.samples, true},
                                        operands, stream);
                     };
                   });
  });
}

}  // namespace fourfold::kernels::cuda
