// Residue forms of group normalisation, in the order of group_norm.h. Letters as there.
#include <algorithm>

#include "op/group_norm.h"
#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// Which groups the channels of a part belong to, for rows that say which channels are here.
struct GroupsOfChannels {
  std::int64_t groups, of_group, first;

  template <class Row>
  explicit GroupsOfChannels(const Row& row)
      : groups(row.groups), of_group(row.width / row.groups), first(row.before + row.first) {}

  /// Where the two numbers of a channel's group stand in a tensor (B, G, 2).
  std::int64_t place(std::int64_t sample, std::int64_t channel) const {
    return (sample * groups + (first + channel) / of_group) * 2;
  }
};

/// Two numbers of a channel or a group, from one place on.
struct Pair {
  Residue first, second;
};
Pair pair_at(const ResidueTensor& numbers, std::int64_t place) {
  return {numbers.elements[place], numbers.elements[place + 1]};
}
void write_pair(const ResidueTensor& numbers, std::int64_t place, Pair pair) {
  numbers.elements[place] = pair.first;
  numbers.elements[place + 1] = pair.second;
}

/// Where the two numbers of a channel stand in a tensor (C, B, 2).
std::int64_t place_of_channel(std::int64_t samples, std::int64_t sample, std::int64_t channel) {
  return (channel * samples + sample) * 2;
}

/// Calls body(sample, channel) for each row (C, B) of such a tensor.
template <class Body>
void for_each_channel(std::int64_t samples, std::int64_t channels, Body body) {
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t sample = 0; sample < samples; ++sample) body(sample, channel);
}

/// Calls body(index) for each pixel of a channel in x (B, ..., C).
template <class Body>
void for_each_pixel(const PixelSizes& sizes, std::int64_t sample, std::int64_t channel, Body body) {
  for (std::int64_t pixel = 0; pixel < sizes.pixels; ++pixel)
    body((sample * sizes.pixels + pixel) * sizes.channels + channel);
}

/// The element of x without its group's mean and deviation.
Residue normal_of(Residue x, Pair statistics) {
  return multiply(subtract(x, statistics.first), statistics.second);
}

}  // namespace

// --- moments

void GroupNormMoments::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor& x = all[0];
  const PixelSizes sizes(x.shape);
  const Residue share = one_over(sizes.pixels);
  for_each_channel(sizes.samples, sizes.channels, [&](std::int64_t b, std::int64_t c) {
    ProductSum sum, squares;
    for_each_pixel(sizes, b, c, [&](std::int64_t i) { sum.add_product(x.elements[i], share); });
    const Residue mean = sum.value();
    for_each_pixel(sizes, b, c, [&](std::int64_t i) {
      const Residue distance = subtract(x.elements[i], mean);
      squares.add_product(distance, distance);
    });
    write_pair(all[1], place_of_channel(sizes.samples, b, c), {mean, squares.value()});
  });
}

void GroupNormMomentsGradient::residue_form(const Residues&, ResidueTensors all) const {
  const PixelSizes sizes(all[0].shape);
  const Residue share = one_over(sizes.pixels);
  sizes.for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    const std::int64_t place = place_of_channel(sizes.samples, b, c);
    const Pair moments = pair_at(all[1], place), grads = pair_at(all[2], place);
    const Residue distance = subtract(all[0].elements[i], moments.first);
    // d(squares) / dx is twice the distance: what the mean gives to it adds up to 0.
    ProductSum grad(accumulate ? all[3].elements[i] : 0);
    grad.add_product(grads.first, share);
    grad.add_product(multiply(2, distance), grads.second);
    all[3].elements[i] = grad.value();
  });
}

// --- statistics

// The variance of a group is the mean over its channels of squares / pixels + (mean of the channel
// - mean of the group)^2.

void GroupNormStatistics::residue_form(const Residues& residues, ResidueTensors all) const {
  const ResidueTensor& statistics = all.back();
  const std::int64_t samples = statistics.shape[0];
  std::vector<Pair> moments;  // of all channels of a sample, part after part
  for (std::int64_t b = 0; b < samples; ++b) {
    moments.clear();
    for (const ResidueTensor& part : all.first(all.size() - 1))
      for (std::int64_t c = 0; c < part.shape[0]; ++c)
        moments.push_back(pair_at(part, place_of_channel(samples, b, c)));
    const std::int64_t of_group = static_cast<std::int64_t>(moments.size()) / groups;
    const Residue share = one_over(of_group), of_pixel = one_over(pixels);
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto of = std::span(moments).subspan(static_cast<std::size_t>(g * of_group),
                                                 static_cast<std::size_t>(of_group));
      ProductSum means, variances;
      for (const Pair& channel : of) means.add_product(channel.first, share);
      const Residue mean = means.value();
      for (const Pair& channel : of) {
        const Residue distance = subtract(channel.first, mean);
        variances.add_product(channel.second, of_pixel);
        variances.add_product(distance, distance);
      }
      const Residue variance = multiply(variances.value(), share);
      write_pair(statistics, (b * groups + g) * 2,
                 {mean, reciprocal_deviation(residues, variance, epsilon)});
    }
  }
}

void GroupNormStatisticsGradient::residue_form(const Residues&, ResidueTensors all) const {
  const ResidueTensor &statistics = all[0], &statistics_grad = all[1], &moments = all[2];
  const GroupsOfChannels of(*this);
  const std::int64_t channels = moments.shape[0], samples = moments.shape[1];
  const Residue share = one_over(of.of_group), of_pixel = one_over(pixels),
                minus_half = negate(one_over(2));
  for_each_channel(samples, channels, [&](std::int64_t b, std::int64_t c) {
    const auto [mean, rstd] = pair_at(statistics, of.place(b, c));
    const auto [mean_grad, rstd_grad] = pair_at(statistics_grad, of.place(b, c));
    const std::int64_t place = place_of_channel(samples, b, c);
    const Residue distance = subtract(moments.elements[place], mean);
    // d(rstd) / d(variance) = -rstd^3 / 2.
    const Residue cube = multiply(rstd, multiply(rstd, rstd));
    const Residue variance_grad = multiply(multiply(rstd_grad, cube), minus_half);
    const Residue by_distance = multiply(multiply(2, distance), variance_grad);
    write_pair(all[3], place,
               {multiply(add(mean_grad, by_distance), share),
                multiply(variance_grad, multiply(share, of_pixel))});
  });
}

// --- what statistics make of a part

void GroupNormApply::residue_form(const Residues&, ResidueTensors all) const {
  const GroupsOfChannels of(*this);
  const auto gain = all[2].elements, bias = all[3].elements;
  PixelSizes(all[0].shape).for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    const Residue normal = normal_of(all[0].elements[i], pair_at(all[1], of.place(b, c)));
    all[4].elements[i] = add(multiply(normal, gain[c]), bias[c]);
  });
}

void GroupNormSums::residue_form(const Residues&, ResidueTensors all) const {
  const GroupsOfChannels of(*this);
  const PixelSizes sizes(all[0].shape);
  for_each_channel(sizes.samples, sizes.channels, [&](std::int64_t b, std::int64_t c) {
    const Pair statistics = pair_at(all[1], of.place(b, c));
    ProductSum grads, grads_normal;
    for_each_pixel(sizes, b, c, [&](std::int64_t i) {
      const Residue grad = all[2].elements[i];
      grads.add_product(grad, 1);
      grads_normal.add_product(grad, normal_of(all[0].elements[i], statistics));
    });
    write_pair(all[3], place_of_channel(sizes.samples, b, c),
               {grads.value(), grads_normal.value()});
  });
}

void GroupNormWeightGradient::residue_form(const Residues&, ResidueTensors all) const {
  const std::int64_t channels = all[0].shape[0], samples = all[0].shape[1];
  for (std::int64_t c = 0; c < channels; ++c) {
    ProductSum gain(accumulate ? all[1].elements[c] : 0);
    ProductSum bias(accumulate ? all[2].elements[c] : 0);
    for (std::int64_t b = 0; b < samples; ++b) {
      const auto [grad, grad_normal] = pair_at(all[0], place_of_channel(samples, b, c));
      gain.add_product(grad_normal, 1);
      bias.add_product(grad, 1);
    }
    all[1].elements[c] = gain.value();
    all[2].elements[c] = bias.value();
  }
}

void GroupNormGroupSums::residue_form(const Residues&, ResidueTensors all) const {
  const GroupsOfChannels of(*this);
  const ResidueTensor &sums = all[0], &statistics = all[1], &statistics_grad = all[3];
  const std::int64_t channels = sums.shape[0], samples = sums.shape[1];
  std::ranges::fill(statistics_grad.elements, 0);
  // y = (x - mean) rstd gain + bias, where x - mean is normal / rstd.
  for_each_channel(samples, channels, [&](std::int64_t b, std::int64_t c) {
    const std::int64_t place = of.place(b, c);
    const Residue rstd = statistics.elements[place + 1], gain = all[2].elements[c];
    const auto [grad, grad_normal] = pair_at(sums, place_of_channel(samples, b, c));
    const auto [mean_grad, rstd_grad] = pair_at(statistics_grad, place);
    write_pair(statistics_grad, place,
               {subtract(mean_grad, multiply(rstd, multiply(gain, grad))),
                add(rstd_grad, divide(multiply(gain, grad_normal), rstd))});
  });
}

void GroupNormApplyGradient::residue_form(const Residues&, ResidueTensors all) const {
  const GroupsOfChannels of(*this);
  PixelSizes(all[2].shape).for_each([&](std::int64_t b, std::int64_t c, std::int64_t i) {
    const Residue rstd = pair_at(all[0], of.place(b, c)).second;
    all[3].elements[i] = multiply(all[2].elements[i], multiply(all[1].elements[c], rstd));
  });
}

}  // namespace fourfold::op
