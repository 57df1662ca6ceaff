// Group normalisation: sizes, and what the small numbers of channels and groups are, written once
// for all backends. op/group_norm.h says what each row computes; S is the type of sums. B samples,
// C channels that are here, G groups.
#pragma once

#include <cmath>

#include "kernels/pixels.h"

namespace fourfold::kernels {

/// Which groups the channels of a part belong to.
struct ChannelGroups {
  std::int64_t groups, of_group, first;  // channels of a group; number of the first one here
  FOURFOLD_CUDA std::int64_t group_of(std::int64_t channel) const {
    return (first + channel) / of_group;
  }
};
template <class Row>
ChannelGroups channel_groups(const Row& op) {
  return {op.groups, op.width / op.groups, op.before + op.first};
}

inline constexpr int most_norm_parts = 4;
template <class S>
struct NormParts {
  const S* moments_CB2[most_norm_parts];
  std::int64_t channels[most_norm_parts];

  FOURFOLD_CUDA std::int64_t width() const {
    std::int64_t width = 0;
    for (const std::int64_t of_part : channels) width += of_part;
    return width;
  }
};
/// The parts that op::GroupNormStatistics reads, without what they hold.
template <class S>
NormParts<S> norm_parts(op::Shapes all) {
  NormParts<S> parts{};
  for (std::size_t i = 0; i + 1 < all.size(); ++i) parts.channels[i] = all[i][0];
  return parts;
}

/// Statistics of one group of one sample, written to two numbers. Channels of n pixels: joining the
/// (k+1)-th moves the mean by delta / (k+1) and adds delta^2 n k / (k+1) to the squares.
template <class S>
FOURFOLD_CUDA void merge_group(const NormParts<S>& parts, std::int64_t samples, std::int64_t sample,
                               std::int64_t group, std::int64_t of_group, S pixels, S epsilon,
                               S* statistics_2) {
  int part = 0;
  std::int64_t channel = group * of_group;
  S mean = 0, squares = 0;
  for (std::int64_t k = 0; k < of_group; ++k, ++channel) {
    while (channel >= parts.channels[part]) channel -= parts.channels[part++];
    const S* next = parts.moments_CB2[part] + (channel * samples + sample) * 2;
    const auto before = static_cast<S>(k);
    const S delta = next[0] - mean;
    mean += delta / (before + 1);
    squares += next[1] + delta * delta * (pixels * before / (before + 1));
  }
  const S count = pixels * static_cast<S>(of_group);
  statistics_2[0] = mean;
  statistics_2[1] = 1 / std::sqrt(squares / count + epsilon);
}

/// moments_grad of one channel of one sample. The variance is (squares + n (mean - that of the
/// group)^2) / (n of_group), summed over channels.
template <class S>
FOURFOLD_CUDA void channel_moments_gradient(const S* statistics_2, const S* statistics_grad_2,
                                            const S* moments_2, std::int64_t of_group, S pixels,
                                            S* moments_grad_2) {
  const S rstd = statistics_2[1];
  const S variance_grad = statistics_grad_2[1] * rstd * rstd * rstd / -2;
  const auto channels = static_cast<S>(of_group);
  moments_grad_2[0] =
      (statistics_grad_2[0] + 2 * variance_grad * (moments_2[0] - statistics_2[0])) / channels;
  moments_grad_2[1] = variance_grad / (channels * pixels);
}

/// statistics_grad of one group of one sample, from its channels among the `count` that are here.
template <class T, class S>
FOURFOLD_CUDA void group_sums(const S* sums_CB2, const T* gain_C, const S* statistics_2,
                              std::int64_t samples, std::int64_t sample, std::int64_t group,
                              const ChannelGroups& of, std::int64_t count, S* statistics_grad_2) {
  const std::int64_t begin = group * of.of_group - of.first, end = begin + of.of_group;
  S sum = 0, sum_normal = 0;
  for (std::int64_t c = begin < 0 ? 0 : begin; c < (end < count ? end : count); ++c) {
    const S* of_channel = sums_CB2 + (c * samples + sample) * 2;
    const auto gain = static_cast<S>(gain_C[c]);
    sum += gain * of_channel[0];
    sum_normal += gain * of_channel[1];
  }
  statistics_grad_2[0] = -statistics_2[1] * sum;
  statistics_grad_2[1] = sum_normal / statistics_2[1];
}

/// Gradients of gain and bias of one channel.
template <class S>
FOURFOLD_CUDA void channel_weight_gradients(const S* sums_CB2, std::int64_t samples,
                                            std::int64_t channel, bool accumulate, S* gain_grad_C,
                                            S* bias_grad_C) {
  S gain_grad = accumulate ? gain_grad_C[channel] : 0;
  S bias_grad = accumulate ? bias_grad_C[channel] : 0;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const S* of_channel = sums_CB2 + (channel * samples + sample) * 2;
    bias_grad += of_channel[0];
    gain_grad += of_channel[1];
  }
  gain_grad_C[channel] = gain_grad;
  bias_grad_C[channel] = bias_grad;
}

}  // namespace fourfold::kernels
