// Residue forms of norms, pictures, modulation and diffusion: what rows must give because they are
// each other's gradients, or other words for the same.
#include <gtest/gtest.h>

#include "support/residue_tensors.h"

namespace fourfold::op {
namespace {

/// Rows are tried with these keys, and on residues from one source.
class ResidueGradients : public ::testing::Test {
 protected:
  OwnTensors made(const Op& op, const OwnTensors& reads) {
    return outputs_for(op, residues_, reads);
  }
  OwnTensor draw(const Shape& shape) { return draw_.tensor(shape); }
  OwnTensor integers(std::vector<Residue> elements) {
    return {{std::ssize(elements)}, std::move(elements), true};
  }

  const Residues residues_{3};
  Draw draw_{5};
};

/// The sum of the products of their elements.
Residue product(const OwnTensor& a, const OwnTensor& b) {
  Residue sum = 0;
  for (std::size_t i = 0; i < a.elements.size(); ++i)
    sum = add(sum, multiply(a.elements[i], b.elements[i]));
  return sum;
}

OwnTensor with_shape(OwnTensor tensor, const Shape& shape) {
  tensor.shape = shape;
  return tensor;
}

// --- pictures: where y is linear in x, the sums of y y_grad and of x x_grad are one

TEST_F(ResidueGradients, of_a_convolution_are_those_of_its_sum_of_products) {
  for (const auto& [stride, padding] : {std::pair{1, 1}, std::pair{2, 0}, std::pair{3, 2}}) {
    const OwnTensor x = draw({2, 5, 6, 3}), weight = draw({4, 3, 2, 3});
    const OwnTensor y = made(Convolution{stride, padding}, {x, weight})[0], y_grad = draw(y.shape);
    const Residue sum = product(y, y_grad);
    EXPECT_EQ(product(x, made(ConvolutionGradient{5, 6, stride, padding}, {y_grad, weight})[0]),
              sum);
    EXPECT_EQ(
        product(weight, made(ConvolutionWeightGradient{3, 2, stride, padding}, {x, y_grad})[0]),
        sum);
  }
}

TEST_F(ResidueGradients, a_kernel_of_one_weight_moves_the_picture) {
  const OwnTensor x = draw({1, 5, 6, 1});
  for (std::size_t tap = 0; tap < 6; ++tap) {
    OwnTensor kernel{{1, 3, 2, 1}, std::vector<Residue>(6), false};
    kernel.elements[tap] = 1;
    const OwnTensor y = made(Convolution{2, 1}, {x, kernel})[0];
    ASSERT_EQ(y.shape, (Shape{1, 3, 4, 1}));
    for (std::int64_t i = 0; i < 12; ++i) {
      const std::int64_t h = i / 4 * 2 + static_cast<std::int64_t>(tap) / 2 - 1,
                         w = i % 4 * 2 + static_cast<std::int64_t>(tap) % 2 - 1;
      const bool is_inside = h >= 0 && h < 5 && w >= 0 && w < 6;
      EXPECT_EQ(y.elements[static_cast<std::size_t>(i)],
                is_inside ? x.elements[static_cast<std::size_t>(h * 6 + w)] : 0);
    }
  }
}

TEST_F(ResidueGradients, of_pooling_and_larger_pictures_are_those_of_linear_functions) {
  const OwnTensor x = draw({2, 5, 7, 3});
  const auto expect = [&](const Op& op, auto gradient) {
    const OwnTensor y = made(op, {x})[0], y_grad = draw(y.shape);
    EXPECT_EQ(product(x, gradient(y_grad)), product(y, y_grad)) << name(op);
  };
  expect(MaxPool{3, 2},
         [&](const OwnTensor& y_grad) { return made(MaxPoolGradient{3, 2}, {x, y_grad})[0]; });
  expect(AveragePool{3, 2}, [&](const OwnTensor& y_grad) {
    return made(AveragePoolGradient{5, 7, 3, 2}, {y_grad})[0];
  });
  expect(Upsample{3},
         [&](const OwnTensor& y_grad) { return made(UpsampleGradient{3}, {y_grad})[0]; });
}

TEST_F(ResidueGradients, a_convolution_of_single_pixels_is_a_product_of_matrices) {
  const OwnTensor x = draw({2, 3, 4, 5}), weight = draw({6, 1, 1, 5});
  EXPECT_EQ(made(Convolution{}, {x, weight}),
            made(Contract{3, 1, false, true}, {x, with_shape(weight, {6, 5})}));
}

TEST_F(ResidueGradients, averages_of_larger_pictures_are_the_pictures) {
  const OwnTensor x = draw({2, 3, 4, 2});
  const OwnTensor larger = made(Upsample{3}, {x})[0];
  EXPECT_EQ(made(AveragePool{3, 3}, {larger}), OwnTensors{x});
  EXPECT_EQ(made(MaxPool{3, 3}, {larger}), OwnTensors{x});
}

TEST_F(ResidueGradients, the_first_of_equal_pixels_is_the_largest_and_the_last_that_is_not_finite) {
  OwnTensor x{{1, 2, 2, 1}, {7, 7, 7, 7}, false};
  const OwnTensor y_grad{{1, 1, 1, 1}, {5}, false};
  EXPECT_EQ(made(MaxPoolGradient{}, {x, y_grad})[0].elements, (std::vector<Residue>{5, 0, 0, 0}));
  x.elements = {7, not_finite, not_finite, 7};
  EXPECT_EQ(made(MaxPool{}, {x})[0].elements, std::vector<Residue>{not_finite});
  EXPECT_EQ(made(MaxPoolGradient{}, {x, y_grad})[0].elements,
            (std::vector<Residue>{0, 0, not_finite, 0}));
}

TEST_F(ResidueGradients, bytes_are_numbers_from_0_to_1) {
  const OwnTensor bytes{{1, 1, 2, 2}, {0, 0, 255, 255}, true};
  const Normalize op{{0.25, 0.5}, {0.5, 2}};
  // (0 - mean) / deviation and (1 - mean) / deviation, of two channels.
  EXPECT_EQ(made(op, {bytes})[0].elements,
            (std::vector<Residue>{residue_of(-0.5), residue_of(-0.25), residue_of(1.5),
                                  residue_of(0.25)}));
}

// --- what numbers of a sample do to its pixels

TEST_F(ResidueGradients, of_modulation_are_those_of_its_products) {
  const OwnTensor x = draw({2, 3, 4, 5}), modulation = draw({2, 2, 5}), term = draw({2, 5}),
                  y_grad = draw(x.shape);
  const OwnTensor y = made(ScaleShift{}, {x, modulation})[0],
                  sums = made(ScaleShiftSums{}, {x, y_grad})[0];
  EXPECT_EQ(product(y, y_grad), add(product(x, y_grad), product(modulation, sums)));
  // Without the shift, y is linear in x.
  OwnTensor scale = modulation;
  for (const std::size_t i : {5, 6, 7, 8, 9, 15, 16, 17, 18, 19}) scale.elements[i] = 0;
  EXPECT_EQ(product(made(ScaleShift{}, {x, scale})[0], y_grad),
            product(x, made(ScaleShiftGradient{}, {modulation, y_grad})[0]));
  EXPECT_EQ(product(made(AddToPixels{}, {x, term})[0], y_grad),
            add(product(x, y_grad), product(term, made(PixelSums{}, {y_grad})[0])));
}

// --- norms

/// Group norm of a value in two parts, of 3 groups of 4 channels, the second of which reaches from
/// one part into the other, and of its gradients.
struct GroupNormTrial {
  static constexpr std::int64_t samples = 2, pixels = 6, groups = 3, of_group = 4,
                                width = groups * of_group;
  std::int64_t channels[2] = {5, 7};
  OwnTensor x[2], gain[2], bias[2], y_grad[2];            // of the parts
  OwnTensor y[2], x_grad[2], gain_grad[2], bias_grad[2];  // likewise
  OwnTensor statistics;

  /// The element of a channel among all, in a tensor (..., C) of each part, of row `row`.
  const Residue& at(const OwnTensor (&parts)[2], std::int64_t row, std::int64_t channel) const {
    const std::size_t part = channel < channels[0] ? 0 : 1;
    const std::int64_t own = part == 0 ? channel : channel - channels[0];
    return parts[part].elements[static_cast<std::size_t>(row * channels[part] + own)];
  }
  /// The elements of a group of a sample, or the gains of its channels for each of its pixels.
  OwnTensor of_pixels(const OwnTensor (&parts)[2], std::int64_t sample, std::int64_t group,
                      bool is_weight = false) const {
    OwnTensor made{{pixels * of_group}, {}, false};
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel)
      for (std::int64_t c = 0; c < of_group; ++c)
        made.elements.push_back(
            at(parts, is_weight ? 0 : sample * pixels + pixel, group * of_group + c));
    return made;
  }
};

class ResidueNorms : public ResidueGradients {
 protected:
  GroupNormTrial normed() {
    using Trial = GroupNormTrial;
    Trial trial;
    OwnTensors moments, sums;
    for (const std::size_t part : {0U, 1U}) {
      const std::int64_t channels = trial.channels[part];
      trial.x[part] = draw({Trial::samples, 2, 3, channels});
      trial.y_grad[part] = draw(trial.x[part].shape);
      trial.gain[part] = draw({channels});
      trial.bias[part] = draw({channels});
      moments.push_back(made(GroupNormMoments{}, {trial.x[part]})[0]);
    }
    const std::int64_t before[] = {0, trial.channels[0]};
    trial.statistics = made(GroupNormStatistics{Trial::groups, 2, Trial::pixels, 1e-3}, moments)[0];
    OwnTensor statistics_grad;
    for (const std::size_t part : {0U, 1U}) {
      const auto& [x, gain, y_grad] = std::tie(trial.x[part], trial.gain[part], trial.y_grad[part]);
      trial.y[part] = made(GroupNormApply{Trial::groups, Trial::width, before[part]},
                           {x, trial.statistics, gain, trial.bias[part]})[0];
      sums.push_back(made(GroupNormSums{Trial::groups, Trial::width, before[part]},
                          {x, trial.statistics, y_grad})[0]);
      const OwnTensor term = made(GroupNormGroupSums{Trial::groups, Trial::width, before[part]},
                                  {sums[part], trial.statistics, gain})[0];
      statistics_grad = part == 0 ? term : made(Add{}, {statistics_grad, term})[0];
      OwnTensors weights = made(GroupNormWeightGradient{}, {sums[part]});
      trial.gain_grad[part] = weights[0];
      trial.bias_grad[part] = weights[1];
    }
    for (const std::size_t part : {0U, 1U}) {
      const OwnTensor moments_grad = made(
          GroupNormStatisticsGradient{Trial::groups, Trial::width, Trial::pixels, before[part]},
          {trial.statistics, statistics_grad, moments[part]})[0];
      OwnTensors all = {trial.x[part], moments[part], moments_grad,
                        made(GroupNormApplyGradient{Trial::groups, Trial::width, before[part]},
                             {trial.statistics, trial.gain[part], trial.y_grad[part]})[0]};
      compute_whole(GroupNormMomentsGradient{true}, residues_, all);
      trial.x_grad[part] = all[3];
    }
    return trial;
  }
};

TEST_F(ResidueNorms, a_norm_of_groups_is_a_layer_norm_of_each_of_them) {
  const GroupNormTrial trial = normed();
  std::vector<Residue> gain_grads(GroupNormTrial::width), bias_grads(GroupNormTrial::width);
  for (std::int64_t sample = 0; sample < GroupNormTrial::samples; ++sample)
    for (std::int64_t group = 0; group < GroupNormTrial::groups; ++group) {
      const OwnTensor x = trial.of_pixels(trial.x, sample, group),
                      gain = trial.of_pixels(trial.gain, sample, group, true),
                      bias = trial.of_pixels(trial.bias, sample, group, true),
                      y_grad = trial.of_pixels(trial.y_grad, sample, group);
      const OwnTensors norm = made(LayerNorm{1e-3}, {x, gain, bias});
      EXPECT_EQ(trial.of_pixels(trial.y, sample, group), norm[0]);
      for (const std::size_t i : {0U, 1U})
        EXPECT_EQ(
            trial.statistics
                .elements[static_cast<std::size_t>(sample * GroupNormTrial::groups + group) * 2 +
                          i],
            norm[1 + i].elements[0]);
      EXPECT_EQ(trial.of_pixels(trial.x_grad, sample, group),
                made(LayerNormGradient{}, {x, gain, norm[1], norm[2], y_grad})[0]);
      const OwnTensors weights = made(LayerNormWeightGradient{}, {x, norm[1], norm[2], y_grad});
      for (std::size_t i = 0; i < weights[0].elements.size(); ++i) {
        const auto channel = static_cast<std::size_t>(group * GroupNormTrial::of_group) +
                             i % GroupNormTrial::of_group;
        gain_grads[channel] = add(gain_grads[channel], weights[0].elements[i]);
        bias_grads[channel] = add(bias_grads[channel], weights[1].elements[i]);
      }
    }
  for (std::int64_t c = 0; c < GroupNormTrial::width; ++c) {
    EXPECT_EQ(trial.at(trial.gain_grad, 0, c), gain_grads[static_cast<std::size_t>(c)]);
    EXPECT_EQ(trial.at(trial.bias_grad, 0, c), bias_grads[static_cast<std::size_t>(c)]);
  }
}

TEST_F(ResidueNorms, a_normed_row_has_mean_0_and_its_gradient_sums_to_0) {
  const OwnTensor x = draw({3, 5}), y_grad = draw({3, 5}),
                  one{{5}, std::vector<Residue>(5, 1), false};
  const OwnTensors norm = made(LayerNorm{1e-3, false}, {x, one});
  const OwnTensor x_grad = made(LayerNormGradient{}, {x, one, norm[1], norm[2], y_grad})[0];
  for (std::size_t row = 0; row < 3; ++row) {
    Residue sum = 0, grads = 0, squares = 0;
    for (std::size_t i = 5 * row; i < 5 * (row + 1); ++i) {
      sum = add(sum, norm[0].elements[i]);
      grads = add(grads, x_grad.elements[i]);
      squares = add(squares, multiply(norm[0].elements[i], norm[0].elements[i]));
    }
    EXPECT_EQ(sum, 0U);
    EXPECT_EQ(grads, 0U);
    // The variance, which rstd is a function of, is what the squares are of 1 / rstd^2.
    const Residue rstd = norm[2].elements[row];
    const Residue variance = divide(squares, multiply(residue_of_integer(5), multiply(rstd, rstd)));
    EXPECT_EQ(rstd, residues_.hash(function_name("rsqrt"), {add(variance, residue_of(1e-3))}));
  }
}

// --- diffusion

class ResidueDiffusion : public ResidueGradients {
 protected:
  static constexpr std::int64_t times = 5;
  OwnTensor schedule() { return made(DiffusionSchedule{9, times, true}, {})[0]; }
};

TEST_F(ResidueDiffusion, times_of_a_schedule_spread_evenly) {
  const OwnTensor schedule = made(DiffusionSchedule{10, 5}, {})[0];
  const Residue expected[] = {0, 2, 5, 7, 9};  // 2.25, 4.5 and 6.75 to nearest
  for (const std::size_t index : {0U, 1U, 2U, 3U, 4U})
    EXPECT_EQ(made(TimesOfStep{{2}}, {schedule, {{}, {index}, true}})[0],
              integers({expected[index], expected[index]}));
  EXPECT_EQ(made(DiffusionSchedule{10, 1}, {})[0].elements[6], 9U);
}

TEST_F(ResidueDiffusion, the_loss_of_noise_is_a_square_with_its_gradient) {
  const Shape picture{3, 2, 2, 3};
  for (const bool learned : {false, true}) {
    const Shape of_model{3, 2, 2, learned ? 6 : 3};
    const OwnTensor output = draw(of_model), change = draw(of_model), x_0 = draw(picture),
                    x_t = draw(picture), e = draw(picture), t = integers({4, 0, 2}),
                    labels = integers({1, ~Residue{0}, 0});
    const auto loss_of = [&](const OwnTensor& of_output) {
      const OwnTensor list = made(DiffusionLoss{learned, false, 0.75, 0},
                                  {of_output, x_0, x_t, e, t, labels, schedule()})[0];
      EXPECT_EQ(list.elements[1], 0U) << "a sample without a label";
      return add(list.elements[0], list.elements[2]);
    };
    const OwnTensor changed = made(Add{}, {output, change})[0],
                    grad = made(DiffusionLossGradient{learned, false, 0.75, 0, 1},
                                {output, x_0, x_t, e, t, labels, schedule()})[0];
    // What is left is the square of the change, that of predicted noise of samples with labels.
    const std::size_t channels = learned ? 6 : 3, of_sample = change.elements.size() / 3;
    OwnTensor of_noise = change;
    for (std::size_t i = 0; i < of_noise.elements.size(); ++i)
      if (i % channels >= 3 || i / of_sample == 1) of_noise.elements[i] = 0;
    const Residue square = multiply(residue_of(0.75), divide(product(of_noise, of_noise), 12));
    EXPECT_EQ(subtract(loss_of(changed), loss_of(output)), add(product(grad, change), square));
  }
}

TEST_F(ResidueDiffusion, noise_is_added_to_what_a_schedule_leaves_of_a_picture) {
  const OwnTensor x = draw({2, 3, 2}), scalar = {{}, {7}, true}, t = integers({4, 1});
  const AddNoise op{{5}, {1, 4, 2}};
  const OwnTensors noised = made(op, {x, t, schedule(), scalar, scalar, scalar});
  const OwnTensor zero{x.shape, std::vector<Residue>(x.elements.size()), false};
  const OwnTensors noise = made(op, {zero, t, schedule(), scalar, scalar, scalar});
  EXPECT_EQ(noised[1], noise[1]);
  for (std::size_t i = 0; i < x.elements.size(); ++i) {
    const std::size_t row = t.elements[i / 6] * 7;
    EXPECT_EQ(noise[0].elements[i], multiply(schedule().elements[row + 1], noise[1].elements[i]));
    EXPECT_EQ(subtract(noised[0].elements[i], noise[0].elements[i]),
              multiply(schedule().elements[row], x.elements[i]));
  }
}

TEST_F(ResidueDiffusion, the_last_step_gives_the_start_or_its_mean) {
  const OwnTensor output = draw({2, 3, 4}), x = draw({2, 3, 4}), first{{}, {0}, true},
                  scalar{{}, {7}, true};
  const auto stepped = [&](bool implicit) {
    OwnTensors all = {output, schedule(), first, scalar, scalar, x};
    compute_whole(Denoise{{5}, false, implicit, 0.5, {1, 4, 2}}, residues_, all);
    return all[5];
  };
  const OwnTensor start = stepped(true), mean = stepped(false);
  for (std::size_t i = 0; i < x.elements.size(); ++i)
    EXPECT_EQ(mean.elements[i], add(multiply(schedule().elements[2], start.elements[i]),
                                    multiply(schedule().elements[3], x.elements[i])));
}

TEST_F(ResidueDiffusion, times_are_drawn_by_loss_once_each_time_has_its_losses) {
  const OwnTensor scalar = {{}, {7}, true};
  OwnTensor losses = draw({times, 4});
  for (std::size_t t = 0; t < times; ++t) losses.elements[4 * t] = 2;
  const DrawTimesByLoss by_loss{{5}, {1, 8, 2}, {40}};
  const OwnTensors full = made(by_loss, {scalar, scalar, scalar, losses});
  for (const Residue t : full[0].elements) EXPECT_LT(t, times);
  losses.elements[8] = 1;
  const OwnTensors lacking = made(by_loss, {scalar, scalar, scalar, losses});
  EXPECT_EQ(lacking[0], made(DrawTimes{{5}, times, {1, 8, 2}, {40}}, {scalar, scalar, scalar})[0]);
  EXPECT_EQ(lacking[1].elements, std::vector<Residue>(40, 1));
  EXPECT_NE(full[0], lacking[0]);
  for (std::size_t i = 1; i < 40; ++i)
    EXPECT_EQ(full[1].elements[i] == full[1].elements[0],
              full[0].elements[i] == full[0].elements[0])
        << "a weight is that of its time";
}

TEST_F(ResidueDiffusion, the_losses_of_a_time_are_kept_newest_first) {
  constexpr std::size_t columns = 2 + KeepLosses::entries;
  OwnTensors all = {{{2, 2}, {6, 2, 9, 0}, false}, {{}, {1}, true}, draw({2, columns})};
  all[2].elements[0] = 0;
  all[2].elements[columns] = 10;
  const OwnTensor before = all[2];
  const auto mean_root = [&](std::vector<Residue> entries) {
    Residue sum = 0;
    for (const Residue entry : entries) sum = add(sum, entry);
    return residues_.hash(function_name("root"), {divide(sum, entries.size())});
  };
  compute_whole(KeepLosses{}, residues_, all);
  EXPECT_EQ(std::vector(all[2].elements.begin(), all[2].elements.begin() + 4),
            (std::vector<Residue>{1, mean_root({3}), 3, before.elements[2]}));
  all[0].elements[0] = 10;
  compute_whole(KeepLosses{}, residues_, all);
  EXPECT_EQ(std::vector(all[2].elements.begin(), all[2].elements.begin() + 5),
            (std::vector<Residue>{2, mean_root({5, 3}), 5, 3, before.elements[2]}));
  EXPECT_EQ(std::vector(all[2].elements.begin() + columns, all[2].elements.end()),
            std::vector(before.elements.begin() + columns, before.elements.end()))
      << "a time without samples";
  all[1].elements[0] = 0;
  const OwnTensor kept = all[2];
  compute_whole(KeepLosses{}, residues_, all);
  EXPECT_EQ(all[2], kept) << "nothing is entered where the update is not applied";
}

}  // namespace
}  // namespace fourfold::op
