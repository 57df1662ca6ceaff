// Group normalisation on the device; op/group_norm.h says what each row computes. Letters as there.
#include "kernels/group_norm.h"

#include "kernels/cuda/pixels.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

LaunchShape small_launch(std::int64_t count) {
  return stepping_launch(count, map_threads, map_threads);
}

/// What the sum of distances from the computed mean leaves of it corrects both moments.
template <class T>
__global__ void channel_moments(const T* x_BPC, PixelSizes sizes, float* moments_CB2) {
  begin_kernel();
  const ChannelOfLane of(sizes);
  const auto count = static_cast<float>(sizes.pixels);
  float total[1], from_mean[2];
  sum_over_pixels(
      sizes, of, [&](std::int64_t element, float(&sum)[1]) { sum[0] += to_float(x_BPC[element]); },
      total);
  const float mean = total[0] / count;
  sum_over_pixels(
      sizes, of,
      [&](std::int64_t element, float(&sum)[2]) {
        const float centred = to_float(x_BPC[element]) - mean;
        sum[0] += centred;
        sum[1] += centred * centred;
      },
      from_mean);
  if (warp_index() != 0 || of.channel >= sizes.channels) return;
  const float corrected = from_mean[1] - from_mean[0] * from_mean[0] / count;
  float* const out = moments_CB2 + (of.channel * sizes.samples + of.sample) * 2;
  out[0] = mean + from_mean[0] / count;
  out[1] = corrected < 0 ? 0 : corrected;  // a NaN stays
}

template <class T>
__global__ void channel_sums(const T* x_BPC, const float* statistics_BG2, const T* y_grad_BPC,
                             PixelSizes sizes, ChannelGroups groups, float* sums_CB2) {
  begin_kernel();
  const ChannelOfLane of(sizes);
  float mean = 0, rstd = 0;
  if (of.channel < sizes.channels) {
    const float* const statistics =
        statistics_BG2 + (of.sample * groups.groups + groups.group_of(of.channel)) * 2;
    mean = statistics[0];
    rstd = statistics[1];
  }
  float sums[2];
  sum_over_pixels(
      sizes, of,
      [&](std::int64_t element, float(&sum)[2]) {
        const float grad = to_float(y_grad_BPC[element]);
        sum[0] += grad;
        sum[1] += grad * ((to_float(x_BPC[element]) - mean) * rstd);
      },
      sums);
  if (warp_index() != 0 || of.channel >= sizes.channels) return;
  float* const out = sums_CB2 + (of.channel * sizes.samples + of.sample) * 2;
  out[0] = sums[0];
  out[1] = sums[1];
}

// --- small numbers: a thread for each channel or group of each sample

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
  for_own_elements(channels, [&](std::int64_t channel) {
    channel_weight_gradients(sums_CB2, samples, channel, accumulate, gain_grad_C, bias_grad_C);
  });
}

// --- elements

struct StatisticsOf {
  const float* statistics_BG2;
  ChannelGroups groups;
  __device__ const float* at(std::int64_t sample, std::int64_t channel) const {
    return statistics_BG2 + (sample * groups.groups + groups.group_of(channel)) * 2;
  }
};

template <class T>
struct ApplyBody {
  StatisticsOf of;
  const T *gain_C, *bias_C;
  __device__ float operator()(std::int64_t sample, std::int64_t channel,
                              const float (&x)[1]) const {
    const float* const statistics = of.at(sample, channel);
    return (x[0] - statistics[0]) * statistics[1] * to_float(gain_C[channel]) +
           to_float(bias_C[channel]);
  }
};

template <class T>
struct ApplyGradientBody {
  StatisticsOf of;
  const T* gain_C;
  __device__ float operator()(std::int64_t sample, std::int64_t channel,
                              const float (&y_grad)[1]) const {
    return y_grad[0] * (to_float(gain_C[channel]) * of.at(sample, channel)[1]);
  }
};

/// in: x, and where it accumulates what is there.
struct MomentsGradientBody {
  const float *moments_CB2, *moments_grad_CB2;
  std::int64_t samples;
  float pixels;
  template <int inputs>
  __device__ float operator()(std::int64_t sample, std::int64_t channel,
                              const float (&in)[inputs]) const {
    const std::int64_t at = (channel * samples + sample) * 2;
    const float grad =
        moments_grad_CB2[at] / pixels + 2 * (in[0] - moments_CB2[at]) * moments_grad_CB2[at + 1];
    return inputs == 1 ? grad : in[inputs - 1] + grad;
  }
};

}  // namespace

Enqueue prepare_row(const op::GroupNormMoments&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      launch(channel_moments<T>, channels_launch(sizes), stream, operands[0].as<T>(), sizes,
             operands[1].as<float>());
    };
  });
}

Enqueue prepare_row(const op::GroupNormMomentsGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
      const MomentsGradientBody body{operands[1].as<float>(), operands[2].as<float>(),
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
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, groups = channel_groups(op)](Tensors operands, Workspace, Stream stream) {
      launch(channel_sums<T>, channels_launch(sizes), stream, operands[0].as<T>(),
             operands[1].as<float>(), operands[2].as<T>(), sizes, groups, operands[3].as<float>());
    };
  });
}

Enqueue prepare_row(const op::GroupNormWeightGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return [=, accumulate = op.accumulate](Tensors operands, Workspace, Stream stream) {
    launch(weight_gradients, small_launch(channels), stream, operands[0].as<float>(), channels,
           samples, accumulate, operands[1].as<float>(), operands[2].as<float>());
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
