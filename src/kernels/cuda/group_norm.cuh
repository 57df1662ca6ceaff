// What kernels of group norms and of what follows them share: what a thread keeps of its channels,
// and the sums over samples. op/group_norm.h says what each row computes; letters as there.
#pragma once

#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/pixel_blocks.cuh"
#include "kernels/group_norm.h"

namespace fourfold::kernels::cuda {

/// A number for each channel of a pack.
template <class T>
using OfPack = float[pack_size<T>];

/// The statistics of all groups of all samples.
struct GroupStatistics {
  const float* statistics_BG2;
  ChannelGroups groups;

  /// each(i, statistics of its group) for `count` channels from `channel` on.
  template <class Each>
  __device__ void for_channels(std::int64_t sample, int channel, int count, Each each) const {
    std::int64_t group = groups.group_of(channel);
    std::int64_t left = (group + 1) * groups.of_group - (groups.first + channel);
    for (int i = 0; i < count; ++i, --left) {
      if (left == 0) ++group, left = groups.of_group;
      each(i, statistics_BG2 + (sample * groups.groups + group) * 2);
    }
  }
};

/// What op::GroupNormApply makes of the channels of a pack.
template <class T>
struct NormOfPack {
  OfPack<T> mean = {}, rstd = {}, gain = {}, bias = {};

  NormOfPack() = default;
  /// Without gain and bias where they are null.
  __device__ NormOfPack(const GroupStatistics& of, const T* gain_C, const T* bias_C,
                        std::int64_t sample, int channel, int count) {
    of.for_channels(sample, channel, count, [&](int i, const float* statistics) {
      mean[i] = statistics[0];
      rstd[i] = statistics[1];
    });
    for (int i = 0; i < count; ++i) {
      if (gain_C != nullptr) gain[i] = to_float(gain_C[channel + i]);
      if (bias_C != nullptr) bias[i] = to_float(bias_C[channel + i]);
    }
  }
  __device__ float normal(int i, float x) const { return (x - mean[i]) * rstd[i]; }
  __device__ float apply(int i, float x) const { return normal(i, x) * gain[i] + bias[i]; }
};

/// What op::ScaleShift makes of them.
template <class T>
struct ModulationOfPack {
  OfPack<T> scale = {}, shift = {};

  ModulationOfPack() = default;
  __device__ ModulationOfPack(const T* modulation_B2C, std::int64_t channels, std::int64_t sample,
                              int channel, int count) {
    const T* const of = modulation_B2C + 2 * sample * channels + channel;
    for (int i = 0; i < count; ++i) {
      scale[i] = to_float(of[i]);
      shift[i] = to_float(of[channels + i]);
    }
  }
  __device__ float apply(int i, float x) const { return x * (1 + scale[i]) + shift[i]; }
  __device__ float gradient(int i, float y_grad) const { return y_grad * (1 + scale[i]); }
};

/// Dropout of packs whose elements lie side by side among those of a step.
struct PackDropout {
  DropoutOfTensor dropout;
  bool is_whole;  // the tensor is all that a step has of its samples

  PackDropout(const op::Dropout& op, const Shape& x)
      : dropout(op, x), is_whole(dropout.elements.stretches.is_whole(x.elements())) {}

  /// True if packs of so many elements of a tensor (B, ..., C) do lie side by side: a cut tensor
  /// has whole packs in each of its rows.
  bool fits(const Shape& x, int pack) const { return is_whole || x.back() % pack == 0; }

  template <int size>
  __device__ void apply(DroppedElements& decisions, std::int64_t element,
                        float (&values)[size]) const {
    const std::uint64_t first =
        is_whole ? dropout.elements.first_element + static_cast<std::uint64_t>(element)
                 : dropout.elements.at(element);
#pragma unroll
    for (int i = 0; i < size; ++i)
      values[i] = decisions.dropped(first + static_cast<unsigned>(i))
                      ? 0
                      : __fmul_rn(values[i], dropout.kept_factor);
  }
};

/// The terms of op::GroupNormSums, and what a chain has before it: `silu` that y_grad is made of
/// what follows the norm, by op::SiluGradient, and stored where that is wanted; `modulated` that a
/// scale and shift stand between, whose sums are the third and fourth.
template <class T, bool silu, bool modulated>
struct NormSumTerms {
  using Element = T;
  static constexpr int sums = modulated ? 4 : 2, ahead = 2;
  struct Loaded {
    PackOf<T, T> x, grad;
  };
  struct Channels {
    NormOfPack<T> norm;
    ModulationOfPack<T> modulation;
  };
  struct Drops {
    PackDropout dropout;
    bool is_on;
  };

  const T *x_BPC, *grad_BPC;
  T* y_grad_BPC;  // null where it is not stored
  GroupStatistics statistics;
  const T *gain_C, *bias_C, *modulation_B2C;
  std::int64_t width;  // of a pixel
  Drops drops;

  bool are_whole(const PixelSizes& sizes) const {
    return are_whole_packs<T>(sizes, x_BPC, grad_BPC, y_grad_BPC);
  }
  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    Channels kept{NormOfPack<T>(statistics, gain_C, bias_C, sample, channel, count), {}};
    if constexpr (modulated)
      kept.modulation = ModulationOfPack<T>(modulation_B2C, width, sample, channel, count);
    return kept;
  }
  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    return {load_packs<T>(x_BPC + element, part), load_packs<T>(grad_BPC + element, part)};
  }
  template <class Part>
  __device__ void add(const Channels& kept, const Loaded& of, std::int64_t element, Part part,
                      float (&sum)[sums][pack_size<T>]) const {
    constexpr int size = pack_size<T>;
    float grad[size];
#pragma unroll
    for (int i = 0; i < size; ++i) grad[i] = of.grad[i];
    if constexpr (silu) {
      if (drops.is_on) {
        DroppedElements decisions = drops.dropout.dropout.decisions();
        drops.dropout.apply(decisions, element, grad);
#pragma unroll
        for (int i = 0; i < size; ++i) grad[i] = stored<T>(grad[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < size; ++i) {
      if constexpr (silu) {
        const float y = stored<T>(kept.norm.apply(i, of.x[i]));
        const float read = modulated ? stored<T>(kept.modulation.apply(i, y)) : y;
        grad[i] = stored<T>(kernels::element(Math(), op::SiluGradient(), read, grad[i]));
        if constexpr (modulated) {
          sum[2][i] += grad[i] * y;
          sum[3][i] += grad[i];
          grad[i] = stored<T>(kept.modulation.gradient(i, grad[i]));
        }
      }
      sum[0][i] += grad[i];
      sum[1][i] += grad[i] * kept.norm.normal(i, of.x[i]);
    }
    if constexpr (silu)
      if (y_grad_BPC != nullptr) store_packs<T>(grad, part, y_grad_BPC + element);
  }
};

/// gain_grad (+)= the sums over samples of numbers(sample)[1], bias_grad (+)= those of [0], of the
/// channel of each lane; all threads of a block of `pixel_threads` must call it.
template <class Numbers>
__device__ void sum_over_samples(std::int64_t samples, std::int64_t channel, std::int64_t channels,
                                 bool accumulate, Numbers numbers, float* gain_grad_C,
                                 float* bias_grad_C) {
  constexpr int warps = pixel_threads / warp_lanes;
  __shared__ float of_warps[2][warps][warp_lanes];
  float bias = 0, gain = 0;
  if (channel < channels)
    for (std::int64_t sample = warp_index(); sample < samples; sample += warps) {
      float of_sample[2];
      numbers(sample, of_sample);
      bias += of_sample[0];
      gain += of_sample[1];
    }
  of_warps[0][warp_index()][lane_index()] = bias;
  of_warps[1][warp_index()][lane_index()] = gain;
  __syncthreads();
  if (warp_index() != 0 || channel >= channels) return;
  bias = accumulate ? bias_grad_C[channel] : 0;
  gain = accumulate ? gain_grad_C[channel] : 0;
  for (int warp = 0; warp < warps; ++warp) {
    bias += of_warps[0][warp][lane_index()];
    gain += of_warps[1][warp][lane_index()];
  }
  bias_grad_C[channel] = bias;
  gain_grad_C[channel] = gain;
}

}  // namespace fourfold::kernels::cuda
