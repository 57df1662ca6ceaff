// Group normalisation on CPU; op/group_norm.h says what each row computes. Letters as there.
#include "kernels/group_norm.h"

#include "kernels/cpu/pixels.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// A number for each channel of a block.
template <class T>
using OfBlock = T[channels_at_once];

/// Statistics of the groups of the channels of a block.
template <class T>
struct BlockStatistics {
  OfBlock<T> mean, rstd;
  BlockStatistics(const T* statistics_BG2, const ChannelGroups& of, const ChannelBlock& block) {
    for (std::int64_t i = 0; i < block.count; ++i) {
      const T* statistics =
          statistics_BG2 + (block.sample * of.groups + of.group_of(block.first + i)) * 2;
      mean[i] = statistics[0];
      rstd[i] = statistics[1];
    }
  }
};

/// Two numbers for each channel of a block to where a tensor (C, B, 2) has them.
template <class T>
void store(const OfBlock<T>& first, const OfBlock<T>& second, const PixelSizes& sizes,
           const ChannelBlock& block, T* numbers_CB2) {
  for (std::int64_t i = 0; i < block.count; ++i) {
    T* to = numbers_CB2 + ((block.first + i) * sizes.samples + block.sample) * 2;
    to[0] = first[i];
    to[1] = second[i];
  }
}

/// What the sum of distances from the computed mean leaves of it corrects both moments.
template <class T>
void block_moments(const T* x, const PixelSizes& sizes, const ChannelBlock& block, T* moments_CB2) {
  OfBlock<T> mean, distances, squares;
  const auto count = static_cast<T>(sizes.pixels);
  sum_over_pixels<T>(sizes, block, [=](std::int64_t at, std::int64_t) { return x[at]; }, mean);
  for (std::int64_t i = 0; i < block.count; ++i) mean[i] /= count;
  sum_over_pixels<T>(
      sizes, block, [&mean, x](std::int64_t at, std::int64_t i) { return x[at] - mean[i]; },
      distances);
  sum_over_pixels<T>(
      sizes, block,
      [&mean, x](std::int64_t at, std::int64_t i) {
        const T centred = x[at] - mean[i];
        return centred * centred;
      },
      squares);
  for (std::int64_t i = 0; i < block.count; ++i) {
    mean[i] += distances[i] / count;
    squares[i] -= distances[i] * distances[i] / count;
    squares[i] = squares[i] < 0 ? T{0} : squares[i];  // a NaN stays
  }
  store(mean, squares, sizes, block, moments_CB2);
}

/// body(sample, i) for all samples and so many of each: small numbers, on one thread.
template <class Body>
void for_each_of_samples(std::int64_t samples, std::int64_t count, Body body) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t b = 0; b < samples; ++b) body(b, i);
}

}  // namespace

Run prepare_row(const op::GroupNormMoments&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        block_moments<T>(operands[0].as<T>(), sizes, block, operands[1].as<T>());
      });
    };
  });
}

Run prepare_row(const op::GroupNormMomentsGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, accumulate = op.accumulate, threads = problem.threads](Tensors operands,
                                                                          Workspace) {
      const T* x = operands[0].as<T>();
      const T *moments_CB2 = operands[1].as<T>(), *moments_grad_CB2 = operands[2].as<T>();
      T* x_grad = operands[3].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        OfBlock<T> mean, of_mean, of_squares;
        for (std::int64_t i = 0; i < block.count; ++i) {
          const std::int64_t at = ((block.first + i) * sizes.samples + block.sample) * 2;
          mean[i] = moments_CB2[at];
          of_mean[i] = moments_grad_CB2[at] / static_cast<T>(sizes.pixels);
          of_squares[i] = 2 * moments_grad_CB2[at + 1];
        }
        const auto grad = [&](std::int64_t at, std::int64_t i) {
          return of_mean[i] + (x[at] - mean[i]) * of_squares[i];
        };
        if (accumulate)
          for_elements(sizes, block,
                       [&](std::int64_t at, std::int64_t i) { x_grad[at] += grad(at, i); });
        else
          for_elements(sizes, block,
                       [&](std::int64_t at, std::int64_t i) { x_grad[at] = grad(at, i); });
      });
    };
  });
}

Run prepare_row(const op::GroupNormStatistics& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes = norm_parts<T>(problem.shapes), samples = problem.shapes[0][1]](
               Tensors operands, Workspace) {
      NormParts<T> parts = sizes;
      for (std::size_t i = 0; i + 1 < operands.size(); ++i)
        parts.moments_CB2[i] = operands[i].as<T>();
      for_each_of_samples(samples, op.groups, [&](std::int64_t b, std::int64_t g) {
        merge_group(parts, samples, b, g, parts.width() / op.groups, static_cast<T>(op.pixels),
                    static_cast<T>(op.epsilon), operands.back().as<T>() + (b * op.groups + g) * 2);
      });
    };
  });
}

Run prepare_row(const op::GroupNormStatisticsGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[2][0], samples = problem.shapes[2][1];
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, of = channel_groups(op)](Tensors operands, Workspace) {
      for_each_of_samples(samples, channels, [&](std::int64_t b, std::int64_t c) {
        const std::int64_t group = (b * of.groups + of.group_of(c)) * 2,
                           channel = (c * samples + b) * 2;
        channel_moments_gradient(operands[0].as<T>() + group, operands[1].as<T>() + group,
                                 operands[2].as<T>() + channel, of.of_group,
                                 static_cast<T>(op.pixels), operands[3].as<T>() + channel);
      });
    };
  });
}

Run prepare_row(const op::GroupNormApply& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return
        [sizes, of = channel_groups(op), threads = problem.threads](Tensors operands, Workspace) {
          const T* x = operands[0].as<T>();
          T* y = operands[4].as<T>();
          for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
            const BlockStatistics<T> statistics(operands[1].as<T>(), of, block);
            const T* gain = operands[2].as<T>() + block.first;
            const T* bias = operands[3].as<T>() + block.first;
            for_elements(sizes, block, [&](std::int64_t at, std::int64_t i) {
              y[at] = (x[at] - statistics.mean[i]) * statistics.rstd[i] * gain[i] + bias[i];
            });
          });
        };
  });
}

Run prepare_row(const op::GroupNormSums& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return
        [sizes, of = channel_groups(op), threads = problem.threads](Tensors operands, Workspace) {
          const T *x = operands[0].as<T>(), *y_grad = operands[2].as<T>();
          for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
            const BlockStatistics<T> statistics(operands[1].as<T>(), of, block);
            OfBlock<T> sum, sum_normal;
            sum_over_pixels<T>(
                sizes, block, [=](std::int64_t at, std::int64_t) { return y_grad[at]; }, sum);
            sum_over_pixels<T>(
                sizes, block,
                [&statistics, x, y_grad](std::int64_t at, std::int64_t i) {
                  return y_grad[at] * ((x[at] - statistics.mean[i]) * statistics.rstd[i]);
                },
                sum_normal);
            store(sum, sum_normal, sizes, block, operands[3].as<T>());
          });
        };
  });
}

Run prepare_row(const op::GroupNormWeightGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, accumulate = op.accumulate](Tensors operands, Workspace) {
      for (std::int64_t c = 0; c < channels; ++c)
        channel_weight_gradients(operands[0].as<T>(), samples, c, accumulate, operands[1].as<T>(),
                                 operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::GroupNormGroupSums& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, of = channel_groups(op)](Tensors operands, Workspace) {
      for_each_of_samples(samples, of.groups, [&](std::int64_t b, std::int64_t g) {
        const std::int64_t at = (b * of.groups + g) * 2;
        group_sums(operands[0].as<T>(), operands[2].as<T>(), operands[1].as<T>() + at, samples, b,
                   g, of, channels, operands[3].as<T>() + at);
      });
    };
  });
}

Run prepare_row(const op::GroupNormApplyGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[2]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, of = channel_groups(op), threads = problem.threads](Tensors operands,
                                                                       Workspace) {
      const T* y_grad = operands[2].as<T>();
      T* x_grad = operands[3].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        const BlockStatistics<T> statistics(operands[0].as<T>(), of, block);
        OfBlock<T> factor;
        for (std::int64_t i = 0; i < block.count; ++i)
          factor[i] = operands[1].as<T>()[block.first + i] * statistics.rstd[i];
        for_elements(sizes, block,
                     [&](std::int64_t at, std::int64_t i) { x_grad[at] = y_grad[at] * factor[i]; });
      });
    };
  });
}

}  // namespace fourfold::kernels::cpu
