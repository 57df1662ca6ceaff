// Reference group normalisation; op/group_norm.h says what each row computes. Letters as there.
#include "kernels/group_norm.h"

#include "kernels/reference/pixels.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// What the sum of distances from the computed mean leaves of it corrects both moments.
template <class T>
void channel_moments(const T* x_BPC, const PixelSizes& sizes, std::int64_t b, std::int64_t c,
                     Sum<T>* moments_2) {
  using S = Sum<T>;
  const auto count = static_cast<S>(sizes.pixels);
  const auto at = [&](std::int64_t i) { return static_cast<S>(x_BPC[i]); };
  const S mean = sum_over_pixels<S>(sizes, b, c, at) / count;
  const S distances = sum_over_pixels<S>(sizes, b, c, [&](std::int64_t i) { return at(i) - mean; });
  const S squares = sum_over_pixels<S>(
      sizes, b, c, [&](std::int64_t i) { return (at(i) - mean) * (at(i) - mean); });
  const S corrected = squares - distances * distances / count;
  moments_2[0] = mean + distances / count;
  moments_2[1] = corrected < 0 ? 0 : corrected;  // a NaN stays
}

}  // namespace

Run prepare_row(const op::GroupNormMoments&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      Sum<T>* moments_CB2 = operands[1].as<Sum<T>>();
      for_each_of_samples(sizes.samples, sizes.channels, [&](std::int64_t b, std::int64_t c) {
        channel_moments(operands[0].as<T>(), sizes, b, c,
                        moments_CB2 + (c * sizes.samples + b) * 2);
      });
    };
  });
}

Run prepare_row(const op::GroupNormMomentsGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, accumulate = op.accumulate](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T* x = operands[0].as<T>();
      const S *moments_CB2 = operands[1].as<S>(), *moments_grad_CB2 = operands[2].as<S>();
      T* x_grad = operands[3].as<T>();
      for_elements(sizes, [&](std::int64_t b, std::int64_t c, std::int64_t i) {
        const std::int64_t at = (c * sizes.samples + b) * 2;
        const S grad = moments_grad_CB2[at] / static_cast<S>(sizes.pixels) +
                       2 * (static_cast<S>(x[i]) - moments_CB2[at]) * moments_grad_CB2[at + 1];
        x_grad[i] = static_cast<T>(accumulate ? static_cast<S>(x_grad[i]) + grad : grad);
      });
    };
  });
}

Run prepare_row(const op::GroupNormStatistics& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes = norm_parts<Sum<T>>(problem.shapes), samples = problem.shapes[0][1]](
               Tensors operands, Workspace) {
      using S = Sum<T>;
      NormParts<S> parts = sizes;
      for (std::size_t i = 0; i + 1 < operands.size(); ++i)
        parts.moments_CB2[i] = operands[i].as<S>();
      for_each_of_samples(samples, op.groups, [&](std::int64_t b, std::int64_t g) {
        merge_group(parts, samples, b, g, parts.width() / op.groups, static_cast<S>(op.pixels),
                    static_cast<S>(op.epsilon), operands.back().as<S>() + (b * op.groups + g) * 2);
      });
    };
  });
}

Run prepare_row(const op::GroupNormStatisticsGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[2][0], samples = problem.shapes[2][1];
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, of = channel_groups(op)](Tensors operands, Workspace) {
      using S = Sum<T>;
      for_each_of_samples(samples, channels, [&](std::int64_t b, std::int64_t c) {
        const std::int64_t group = (b * of.groups + of.group_of(c)) * 2,
                           channel = (c * samples + b) * 2;
        channel_moments_gradient(operands[0].as<S>() + group, operands[1].as<S>() + group,
                                 operands[2].as<S>() + channel, of.of_group,
                                 static_cast<S>(op.pixels), operands[3].as<S>() + channel);
      });
    };
  });
}

Run prepare_row(const op::GroupNormApply& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, of = channel_groups(op)](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T *x = operands[0].as<T>(), *gain_C = operands[2].as<T>(),
              *bias_C = operands[3].as<T>();
      const S* statistics_BG2 = operands[1].as<S>();
      T* y = operands[4].as<T>();
      for_elements(sizes, [&](std::int64_t b, std::int64_t c, std::int64_t i) {
        const S* statistics = statistics_BG2 + (b * of.groups + of.group_of(c)) * 2;
        const S normal = (static_cast<S>(x[i]) - statistics[0]) * statistics[1];
        y[i] = static_cast<T>(normal * static_cast<S>(gain_C[c]) + static_cast<S>(bias_C[c]));
      });
    };
  });
}

Run prepare_row(const op::GroupNormSums& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, of = channel_groups(op)](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T *x = operands[0].as<T>(), *y_grad = operands[2].as<T>();
      for_each_of_samples(sizes.samples, sizes.channels, [&](std::int64_t b, std::int64_t c) {
        const S* statistics = operands[1].as<S>() + (b * of.groups + of.group_of(c)) * 2;
        const auto grad = [&](std::int64_t i) { return static_cast<S>(y_grad[i]); };
        S* sums = operands[3].as<S>() + (c * sizes.samples + b) * 2;
        sums[0] = sum_over_pixels<S>(sizes, b, c, grad);
        sums[1] = sum_over_pixels<S>(sizes, b, c, [&](std::int64_t i) {
          return grad(i) * ((static_cast<S>(x[i]) - statistics[0]) * statistics[1]);
        });
      });
    };
  });
}

Run prepare_row(const op::GroupNormWeightGradient& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, accumulate = op.accumulate](Tensors operands, Workspace) {
      using S = Sum<T>;
      for (std::int64_t c = 0; c < channels; ++c)
        channel_weight_gradients(operands[0].as<S>(), samples, c, accumulate, operands[1].as<S>(),
                                 operands[2].as<S>());
    };
  });
}

Run prepare_row(const op::GroupNormGroupSums& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][0], samples = problem.shapes[0][1];
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, of = channel_groups(op)](Tensors operands, Workspace) {
      using S = Sum<T>;
      for_each_of_samples(samples, of.groups, [&](std::int64_t b, std::int64_t g) {
        const std::int64_t at = (b * of.groups + g) * 2;
        group_sums(operands[0].as<S>(), operands[2].as<T>(), operands[1].as<S>() + at, samples, b,
                   g, of, channels, operands[3].as<S>() + at);
      });
    };
  });
}

Run prepare_row(const op::GroupNormApplyGradient& op, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[2]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, of = channel_groups(op)](Tensors operands, Workspace) {
      using S = Sum<T>;
      const S* statistics_BG2 = operands[0].as<S>();
      const T *gain_C = operands[1].as<T>(), *y_grad = operands[2].as<T>();
      T* x_grad = operands[3].as<T>();
      for_elements(sizes, [&](std::int64_t b, std::int64_t c, std::int64_t i) {
        const S rstd = statistics_BG2[(b * of.groups + of.group_of(c)) * 2 + 1];
        x_grad[i] = static_cast<T>(static_cast<S>(y_grad[i]) * (static_cast<S>(gain_C[c]) * rstd));
      });
    };
  });
}

}  // namespace fourfold::kernels::reference
