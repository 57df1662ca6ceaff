// Group normalisation on the device; op/group_norm.h says what each row computes. Letters as there.
#include "kernels/cuda/group_norm.cuh"
#include "kernels/cuda/group_norm_moments.cuh"
#include "kernels/cuda/pixels.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

LaunchShape small_launch(std::int64_t count) {
  return stepping_launch(count, map_threads, map_threads);
}
/// A block of `pixel_threads` for each warp's channels.
LaunchShape launch_for_channels(std::int64_t channels) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(channels, warp_lanes));
  shape.threads = pixel_threads;
  return shape;
}

// --- small numbers

__global__ void merge_groups(NormParts<float> parts, std::int64_t samples, std::int64_t groups,
                             float pixels, float epsilon, float* statistics_BG2) {
  begin_kernel();
  const std::int64_t of_group = parts.width() / groups;
  for_own_elements(samples * groups, [&](std::int64_t i) {
    merge_group(parts, samples, i / groups, i % groups, of_group, pixels, epsilon,
                statistics_BG2 + 2 * i);
  });
}

__global__ void moments_gradients(const float* statistics_BG2, const float* statistics_grad_BG2,
                                  const float* moments_CB2, std::int64_t channels,
                                  std::int64_t samples, ChannelGroups groups, float pixels,
                                  float* moments_grad_CB2) {
  begin_kernel();
  for_own_elements(channels * samples, [&](std::int64_t i) {
    const std::int64_t group = (i % samples * groups.groups + groups.group_of(i / samples)) * 2;
    channel_moments_gradient(statistics_BG2 + group, statistics_grad_BG2 + group,
                             moments_CB2 + 2 * i, groups.of_group, pixels,
                             moments_grad_CB2 + 2 * i);
  });
}

template <class T>
__global__ void all_group_sums(const float* sums_CB2, const float* statistics_BG2, const T* gain_C,
                               std::int64_t channels, std::int64_t samples, ChannelGroups groups,
                               float* statistics_grad_BG2) {
  begin_kernel();
  for_own_elements(samples * groups.groups, [&](std::int64_t i) {
    group_sums(sums_CB2, gain_C, statistics_BG2 + 2 * i, samples, i / groups.groups,
               i % groups.groups, groups, channels, statistics_grad_BG2 + 2 * i);
  });
}

__global__ void weight_gradients(const float* sums_CB2, std::int64_t channels, std::int64_t samples,
                                 bool accumulate, float* gain_grad_C, float* bias_grad_C) {
  begin_kernel();
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * warp_lanes + lane_index();
  sum_over_samples(
      samples, channel, channels, accumulate,
      [&](std::int64_t sample, float(&of_sample)[2]) {
        const float* const sums = sums_CB2 + (channel * samples + sample) * 2;
        of_sample[0] = sums[0];
        of_sample[1] = sums[1];
      },
      gain_grad_C, bias_grad_C);
}

/// sums_CB2 from what stretches have.
__global__ void add_stretches_of_sums(StretchNumbers numbers, float* sums_CB2) {
  begin_kernel();
  for_own_elements(numbers.samples * numbers.channels, [&](std::int64_t i) {
    const std::int64_t sample = i / numbers.channels, channel = i % numbers.channels;
    float* const out = sums_CB2 + (channel * numbers.samples + sample) * 2;
    out[0] = numbers.total(0, sample, channel);
    out[1] = numbers.total(1, sample, channel);
  });
}

// --- elements

template <class T>
struct ApplyBody {
  using Channels = NormOfPack<T>;
  GroupStatistics statistics;
  const T *gain_C, *bias_C;
  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    return Channels(statistics, gain_C, bias_C, sample, channel, count);
  }
  template <int size>
  __device__ void compute(const Channels& kept, std::int64_t, const float (&x)[1][size],
                          float (&y)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) y[i] = kept.apply(i, x[0][i]);
  }
};

template <class T>
struct ApplyGradientBody {
  struct Channels {
    OfPack<T> factor;
  };
  GroupStatistics statistics;
  const T* gain_C;
  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    const T* const no_bias = nullptr;
    const NormOfPack<T> norm(statistics, gain_C, no_bias, sample, channel, count);
    Channels kept{};
    for (int i = 0; i < count; ++i) kept.factor[i] = norm.gain[i] * norm.rstd[i];
    return kept;
  }
  template <int size>
  __device__ void compute(const Channels& kept, std::int64_t, const float (&y_grad)[1][size],
                          float (&x_grad)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) x_grad[i] = y_grad[0][i] * kept.factor[i];
  }
};

/// in: x, and where it accumulates what is there.
template <class T>
struct MomentsGradientBody {
  using Channels = MomentsGradientOfPack<T>;
  const float *moments_CB2, *moments_grad_CB2;
  std::int64_t samples;
  float pixels;
  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    Channels kept;
    for (int i = 0; i < count; ++i) {
      const std::int64_t at = ((channel + i) * samples + sample) * 2;
      kept.set(i, moments_CB2 + at, moments_grad_CB2 + at, pixels);
    }
    return kept;
  }
  template <int inputs, int size>
  __device__ void compute(const Channels& kept, std::int64_t, const float (&in)[inputs][size],
                          float (&x_grad)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const float grad = kept.gradient(i, in[0][i]);
      x_grad[i] = inputs == 1 ? grad : in[inputs - 1][i] + grad;
    }
  }
};

}  // namespace

std::int64_t workspace_bytes(const op::GroupNormMoments&, const Problem& problem) {
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[0]), problem.dtype, 2);
}
std::int64_t workspace_bytes(const op::GroupNormSums&, const Problem& problem) {
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[0]), problem.dtype, 2);
}

Enqueue prepare_row(const op::GroupNormMoments&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace workspace, Stream stream) {
      T* const x = operands[0].as<T>();
      enqueue_moments<T>(MomentSource<T, false, false>{x, nullptr, nullptr, x, false}, sizes,
                         operands[1].as<float>(), std::nullopt, workspace, stream);
    };
  });
}

Enqueue prepare_row(const op::GroupNormMomentsGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
      const MomentsGradientBody<T> body{operands[1].as<float>(), operands[2].as<float>(),
                                        sizes.samples, static_cast<float>(sizes.pixels)};
      const T* const x = operands[0].as<T>();
      T* const x_grad = operands[3].as<T>();
      if (accumulate)
        enqueue_pixel_map<T, 2>(sizes, {x, x_grad}, x_grad, body, stream);
      else
        enqueue_pixel_map<T, 1>(sizes, {x}, x_grad, body, stream);
    };
  });
}

Enqueue prepare_row(const op::GroupNormStatistics& op, const Problem& problem) {
  return [op, sizes = norm_parts<float>(problem.shapes), samples = problem.shapes[0][1]](
             Tensors operands, Workspace, Stream stream) {
    NormParts<float> parts = sizes;
    for (std::size_t i = 0; i + 1 < operands.size(); ++i)
      parts.moments_CB2[i] = operands[i].as<float>();
    launch(merge_groups, small_launch(samples * op.groups), stream, parts, samples, op.groups,
           static_cast<float>(op.pixels), static_cast<float>(op.epsilon),
           operands.back().as<float>());
  };
}

Enqueue prepare_row(const op::GroupNormStatisticsGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[2][0], samples = problem.shapes[2][1];
  return [=, groups = channel_groups(op)](Tensors operands, Workspace, Stream stream) {
    launch(moments_gradients, small_launch(channels * samples), stream, operands[0].as<float>(),
           operands[1].as<float>(), operands[2].as<float>(), channels, samples, groups,
           static_cast<float>(op.pixels), operands[3].as<float>());
  };
}

Enqueue prepare_row(const op::GroupNormApply& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, groups = channel_groups(op)](Tensors operands, Workspace, Stream stream) {
      enqueue_pixel_map<T, 1>(
          sizes, {operands[0].as<T>()}, operands[4].as<T>(),
          ApplyBody<T>{{operands[1].as<float>(), groups}, operands[2].as<T>(), operands[3].as<T>()},
          stream);
    };
  });
}

Enqueue prepare_row(const op::GroupNormSums& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  const PackDropout none(op::Dropout(), problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, none, groups = channel_groups(op)](Tensors operands, Workspace workspace,
                                                      Stream stream) {
      const PixelBlocks blocks = pixel_blocks<T>(sizes);
      const NormSumTerms<T, false, false> terms{operands[0].as<T>(),
                                                operands[2].as<T>(),
                                                nullptr,
                                                {operands[1].as<float>(), groups},
                                                nullptr,
                                                nullptr,
                                                nullptr,
                                                sizes.channels,
                                                {none, false}};
      enqueue_pixel_sums(blocks, terms, workspace, stream);
      launch(add_stretches_of_sums, small_launch(sizes.samples * sizes.channels), stream,
             StretchNumbers(blocks, workspace), operands[3].as<float>());
    };
  });
}

Enqueue prepare_row(const op::GroupNormWeightGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return [=, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
    launch(weight_gradients, launch_for_channels(channels), stream, operands[0].as<float>(),
           channels, samples, accumulate, operands[1].as<float>(), operands[2].as<float>());
  };
}

Enqueue prepare_row(const op::GroupNormGroupSums& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, groups = channel_groups(op)](Tensors operands, Workspace, Stream stream) {
      launch(all_group_sums<T>, small_launch(samples * groups.groups), stream,
             operands[0].as<float>(), operands[1].as<float>(), operands[2].as<T>(), channels,
             samples, groups, operands[3].as<float>());
    };
  });
}

Enqueue prepare_row(const op::GroupNormApplyGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[2]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, groups = channel_groups(op)](Tensors operands, Workspace, Stream stream) {
      enqueue_pixel_map<T, 1>(
          sizes, {operands[2].as<T>()}, operands[3].as<T>(),
          ApplyGradientBody<T>{{operands[0].as<float>(), groups}, operands[1].as<T>()}, stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
