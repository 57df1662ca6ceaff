// Moments of channels and the statistics of groups on the device, in one way for the rows and for
// chains of them. op/group_norm.h says what they are; letters as there.
#pragma once

#include <optional>

#include "kernels/cuda/pixel_blocks.cuh"
#include "kernels/group_norm.h"

namespace fourfold::kernels::cuda {

/// What op::GroupNormMomentsGradient makes of a pack of channels.
template <class T>
struct MomentsGradientOfPack {
  float mean[pack_size<T>] = {}, of_mean[pack_size<T>] = {}, of_squares[pack_size<T>] = {};

  __device__ void set(int i, const float* moments, const float* moments_grad, float pixels) {
    mean[i] = moments[0];
    of_mean[i] = moments_grad[0] / pixels;
    of_squares[i] = moments_grad[1];
  }
  __device__ float gradient(int i, float x) const {
    return of_mean[i] + 2 * (x - mean[i]) * of_squares[i];
  }
};

/// The pixels of a stretch of a sample.
__device__ inline float pixels_of_stretch(std::int64_t pixels, unsigned stretch,
                                          unsigned stretches) {
  return static_cast<float>(pixels * (stretch + 1) / stretches - pixels * stretch / stretches);
}

/// What x is made of: itself, or an input to which a bias, another input, or both are added, and
/// each sum stored.
template <class T, bool biased, bool summed>
struct MomentSource {
  static constexpr bool makes_x = biased || summed;
  struct Loaded {
    PackOf<T, T> in, other;
  };
  const T *in_BPC, *bias_C, *other_BPC;
  T* x_BPC;
  bool bias_first;

  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    Loaded loaded{load_packs<T>(in_BPC + element, part), {}};
    if constexpr (summed) loaded.other = load_packs<T>(other_BPC + element, part);
    return loaded;
  }
  __device__ float value(const Loaded& of, int i, float bias) const {
    float value = of.in[i];
    if constexpr (biased && summed) {
      const float other = of.other[i];
      value = bias_first ? stored<T>(value + bias) + other : stored<T>(value + other) + bias;
    } else {
      if constexpr (biased) value += bias;
      if constexpr (summed) value += of.other[i];
    }
    return stored<T>(value);
  }
};

/// Visitor that makes x and sums it.
template <class T, class Source>
struct MeanVisitor {
  using Loaded = typename Source::Loaded;
  const Source& source;
  float bias[pack_size<T>];
  float sum[1][pack_size<T>];

  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    return source.load(element, part);
  }
  template <class Part>
  __device__ void take(std::int64_t element, const Loaded& of, Part part) {
    float x[pack_size<T>];
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      x[i] = source.value(of, i, bias[i]);
      sum[0][i] += x[i];
    }
    if constexpr (Source::makes_x) store_packs<T>(x, part, source.x_BPC + element);
  }
};

/// Visitor that sums distances from a mean and their squares.
template <class T>
struct DistanceVisitor {
  using Loaded = PackOf<T, T>;
  const T* x_BPC;
  float mean[pack_size<T>];
  float sum[2][pack_size<T>];

  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    return load_packs<T>(x_BPC + element, part);
  }
  template <class Part>
  __device__ void take(std::int64_t, const Loaded& x, Part) {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      const float distance = x[i] - mean[i];
      sum[0][i] += distance;
      sum[1][i] += distance * distance;
    }
  }
};

/// Two numbers for each channel of each stretch: the mean, and the sum of squared distances from
/// it. What the sum of distances from the computed mean leaves of it corrects both.
template <class T, class Source>
__global__ void __launch_bounds__(pixel_threads)
    stretch_moments(PixelBlocks blocks, bool aligned, Source source, StretchNumbers numbers) {
  begin_kernel();
  __shared__ float means[pixel_threads * pack_size<T>];
  const OwnPixels<T> own(blocks);
  const float pixels = pixels_of_stretch(blocks.sizes.pixels, own.stretch, blocks.stretches);
  const int pack = static_cast<int>(threadIdx.x % blocks.packs) * pack_size<T>,
            first = own.channel - pack;
  MeanVisitor<T, Source> of_all{source, {}, {}};
  if (source.bias_C != nullptr)
    for (int i = 0; i < own.count; ++i) of_all.bias[i] = to_float(source.bias_C[own.channel + i]);
  if (own.count > 0) go_over_pixels<4>(own, blocks, aligned, of_all);
  add_up_rows<1>(own, blocks, of_all.sum, [&](int channel, const float(&totals)[1]) {
    means[channel - first] = totals[0] / pixels;
  });
  DistanceVisitor<T> of_distances{source.x_BPC, {}, {}};
  for (int i = 0; i < own.count; ++i) of_distances.mean[i] = means[pack + i];
  if (own.count > 0) go_over_pixels<8>(own, blocks, aligned, of_distances);
  add_up_rows<2>(own, blocks, of_distances.sum, [&](int channel, const float(&totals)[2]) {
    const float squares = totals[1] - totals[0] * totals[0] / pixels;
    numbers.at(0, own.stretch, own.sample, channel) = means[channel - first] + totals[0] / pixels;
    numbers.at(1, own.stretch, own.sample, channel) = squares < 0 ? 0 : squares;  // a NaN stays
  });
}

/// Moments of one channel of one sample, from those of its stretches in their order: Chan, Golub,
/// LeVeque 1983.
__device__ inline void merge_stretches(const StretchNumbers& numbers, std::int64_t pixels,
                                       std::int64_t sample, std::int64_t channel,
                                       float* moments_2) {
  float mean = numbers.at(0, 0, sample, channel), squares = numbers.at(1, 0, sample, channel);
  float count = pixels_of_stretch(pixels, 0, numbers.stretches);
  for (unsigned stretch = 1; stretch < numbers.stretches; ++stretch) {
    const float added = pixels_of_stretch(pixels, stretch, numbers.stretches), all = count + added;
    const float delta = numbers.at(0, stretch, sample, channel) - mean;
    mean += delta * (added / all);
    squares += numbers.at(1, stretch, sample, channel) + delta * delta * (count * added / all);
    count = all;
  }
  moments_2[0] = mean;
  moments_2[1] = squares;
}

/// What follows moments in a chain: op::GroupNormStatistics.
struct MergedGroups {
  NormParts<float> parts;  // the moments that are made here among them
  std::int64_t groups;
  float pixels, epsilon;
  float* statistics_BG2;
};

/// A block for each sample.
template <bool merges>
__global__ void __launch_bounds__(pixel_threads)
    merge_moments(StretchNumbers numbers, std::int64_t pixels, float* moments_CB2,
                  MergedGroups of) {
  begin_kernel();
  const std::int64_t sample = blockIdx.x;
  for (std::int64_t channel = threadIdx.x; channel < numbers.channels; channel += pixel_threads)
    merge_stretches(numbers, pixels, sample, channel,
                    moments_CB2 + (channel * numbers.samples + sample) * 2);
  if constexpr (merges) {
    __syncthreads();
    const std::int64_t of_group = of.parts.width() / of.groups;
    for (std::int64_t group = threadIdx.x; group < of.groups; group += pixel_threads)
      merge_group(of.parts, numbers.samples, sample, group, of_group, of.pixels, of.epsilon,
                  of.statistics_BG2 + (sample * of.groups + group) * 2);
  }
}

/// op::GroupNormMoments of what a source makes, with bytes_of_pixel_sums(sizes, dtype, 2) of
/// workspace; then the statistics of groups where they are asked for.
template <class T, class Source>
void enqueue_moments(const Source& source, const PixelSizes& sizes, float* moments_CB2,
                     const std::optional<MergedGroups>& groups, Workspace workspace,
                     Stream stream) {
  const PixelBlocks blocks = pixel_blocks<T>(sizes);
  const StretchNumbers numbers(blocks, workspace);
  launch(stretch_moments<T, Source>, blocks.launch_shape(), stream, blocks,
         are_whole_packs<T>(sizes, source.in_BPC, source.other_BPC, source.x_BPC), source, numbers);
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(sizes.samples);
  shape.threads = pixel_threads;
  launch(groups ? merge_moments<true> : merge_moments<false>, shape, stream, numbers, sizes.pixels,
         moments_CB2, groups.value_or(MergedGroups{}));
}

}  // namespace fourfold::kernels::cuda
