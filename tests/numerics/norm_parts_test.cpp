// Layer norm in parts: moments of blocks of channels, merged; what each rank of a cut computes.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "numerics/harness.h"
#include "numerics/parts.h"

namespace fourfold::numerics {
namespace {

constexpr double epsilon = 1e-5;  // of the norms

struct ForwardInParts {
  Array x, gain, bias, y_grad, moments, mean, rstd, sums;
};
ForwardInParts forward(const Shape& shape, std::int64_t parts, double offset) {
  ForwardInParts f{uniform(shape, "x", offset - 1, offset + 1),
                   uniform({shape.back()}, "gain"),
                   uniform({shape.back()}, "bias"),
                   uniform(shape, "grad"),
                   {},
                   {},
                   {},
                   {}};
  f.moments = apply(op::LayerNormMoments{parts}, exact, {f.x}).values[0];
  const Arrays outputs = apply(op::LayerNormApply{epsilon, true, shape.back()}, exact,
                               {f.x, f.moments, f.gain, f.bias})
                             .values;
  f.mean = outputs[1], f.rstd = outputs[2];
  f.sums =
      apply(op::LayerNormGradientSums{}, exact, {f.x, f.gain, f.mean, f.rstd, f.y_grad}).values[0];
  return f;
}

/// Mean: sum |x| / n. Squares: each distance rounds relative to |x| + |mean|.
Arrays moments_magnitude(const Case& sample, const Arrays& outputs) {
  const Array& x = sample.reads[0];
  const std::size_t parts = at(outputs[0].shape[0]), channels = at(x.shape.back());
  const std::size_t rows = x.data.size() / channels, width = channels / parts;
  Arrays magnitude = outputs;
  for (std::size_t part = 0; part < parts; ++part)
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t out = (part * rows + row) * 2;
      double sum = 0, squares = 0;
      for (std::size_t c = 0; c < width; ++c) {
        const double value = std::abs(x.data[row * channels + part * width + c]);
        sum += value;
        squares += std::pow(value + std::abs(outputs[0].data[out]), 2);
      }
      magnitude[0].data[out] = sum / static_cast<double>(width);
      magnitude[0].data[out + 1] = squares;
    }
  return magnitude;
}

double largest_mean(const Array& moments, std::size_t rows, std::size_t row) {
  double largest = 0;
  for (std::size_t i = row * 2; i < moments.data.size(); i += rows * 2)
    largest = std::max(largest, std::abs(moments.data[i]));
  return largest;
}

/// Distances between means round relative to the largest of them, m: the variance then moves by
/// m^2, rstd by rstd^3 m^2, and a normalised element by both.
Arrays apply_magnitude(const Case& sample, const Arrays& outputs) {
  const Array &x = sample.reads[0], &gain = sample.reads[2];
  const std::size_t channels = at(x.shape.back()), rows = outputs[1].data.size();
  Arrays magnitude = outputs;
  for (std::size_t row = 0; row < rows; ++row) {
    const double mean = largest_mean(sample.reads[1], rows, row), rstd = outputs[2].data[row];
    const double growth = 1 + std::pow(rstd * mean, 2);
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t i = row * channels + c;
      magnitude[0].data[i] = (std::abs(x.data[i]) + mean) * rstd * growth * std::abs(gain.data[c]) +
                             (sample.reads.size() > 3 ? std::abs(sample.reads[3].data[c]) : 0);
    }
    magnitude[1].data[row] = mean;
    magnitude[2].data[row] = rstd * growth;
  }
  return magnitude;
}

/// (|x| + |mean|) rstd: what the rounding of a normalised element is relative to.
double normal_abs(const Arrays& reads, std::size_t i) {
  const std::size_t row = i / at(reads[0].shape.back());
  return (std::abs(reads[0].data[i]) + std::abs(reads[2].data[row])) * reads[3].data[row];
}
double scaled_abs(const Arrays& reads, std::size_t i) {
  return std::abs(reads[4].data[i] * reads[1].data[i % reads[1].data.size()]);
}

Arrays norm_sums_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = {filled(outputs[0].shape, 0)};
  for (std::size_t i = 0; i < sample.reads[0].data.size(); ++i) {
    const std::size_t row = i / at(sample.reads[0].shape.back());
    magnitude[0].data[2 * row] += scaled_abs(sample.reads, i);
    magnitude[0].data[2 * row + 1] += scaled_abs(sample.reads, i) * normal_abs(sample.reads, i);
  }
  return magnitude;
}

Arrays norm_parts_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const auto width = static_cast<double>(sample.op.get<op::LayerNormGradientApply>().width);
  const Array& sums = sample.reads[5];
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const std::size_t row = i / at(sample.reads[0].shape.back());
    magnitude[0].data[i] = sample.reads[3].data[row] *
                           (scaled_abs(sample.reads, i) +
                            (std::abs(sums.data[2 * row]) +
                             normal_abs(sample.reads, i) * std::abs(sums.data[2 * row + 1])) /
                                width);
  }
  return magnitude;
}

/// The ops as the first of `ranks` ranks runs them.
void add_cases(std::vector<Case>& cases, const std::string& name, const Shape& shape,
               std::int64_t parts, std::int64_t ranks) {
  const ForwardInParts f = forward(shape, parts, 0.5);
  const std::int64_t width = shape.back(), local = width / ranks;
  const std::size_t last = shape.rank() - 1;
  const Array x = slice(f.x, last, 0, local), gain = slice(f.gain, 0, 0, local),
              bias = slice(f.bias, 0, 0, local), y_grad = slice(f.y_grad, last, 0, local);
  cases.push_back({name,
                   op::LayerNormMoments{parts / ranks},
                   {x},
                   {},
                   static_cast<double>(width / parts),
                   moments_magnitude});
  const auto merged = static_cast<double>(parts);
  cases.push_back({name,
                   op::LayerNormApply{epsilon, true, width},
                   {x, f.moments, gain, bias},
                   {},
                   merged,
                   apply_magnitude});
  cases.push_back({name + " without bias",
                   op::LayerNormApply{epsilon, false, width},
                   {x, f.moments, gain},
                   {},
                   merged,
                   apply_magnitude});
  const Arrays reads = {x, gain, f.mean, f.rstd, y_grad};
  cases.push_back({name,
                   op::LayerNormGradientSums{},
                   reads,
                   {},
                   static_cast<double>(local),
                   norm_sums_magnitude});
  cases.push_back({name,
                   op::LayerNormGradientApply{width},
                   {x, gain, f.mean, f.rstd, y_grad, f.sums},
                   {},
                   1,
                   norm_parts_gradient_magnitude});
}

}  // namespace

std::vector<Case> norm_parts_cases() {
  std::vector<Case> cases;
  add_cases(cases, "size one", {1, 1}, 1, 1);
  add_cases(cases, "odd sizes", {3, 5, 21}, 3, 1);
  add_cases(cases, "a block for each channel", {3, 5, 7}, 7, 7);
  add_cases(cases, "large", {7, 31, 130}, 2, 1);
  add_cases(cases, "half of large", {7, 31, 260}, 4, 2);
  return cases;
}

namespace {

TEST(LayerNormMoments, are_the_mean_and_the_squared_distances_of_each_block) {
  const Array x = uniform({3, 12}, "x", -3, 5);
  const Array got = apply(op::LayerNormMoments{4}, exact, {x}).values[0];
  ASSERT_EQ(got.shape, (Shape{4, 3, 2}));
  for (std::size_t part = 0; part < 4; ++part)
    for (std::size_t row = 0; row < 3; ++row) {
      const double* block = x.data.data() + row * 12 + part * 3;
      const double mean = (block[0] + block[1] + block[2]) / 3;
      double squares = 0;
      for (std::size_t c = 0; c < 3; ++c) squares += (block[c] - mean) * (block[c] - mean);
      EXPECT_NEAR(got.data[(part * 3 + row) * 2], mean, 1e-14);
      EXPECT_NEAR(got.data[(part * 3 + row) * 2 + 1], squares, 1e-13);
    }
}

/// Every rank has its channels, the moments of all are gathered, the sums of all are added.
struct Gathered {
  Array moments, y, mean, rstd, sums, x_grad;
};
Gathered run_on_ranks(const Backend& backend, const ForwardInParts& f, std::int64_t parts,
                      std::int64_t ranks) {
  const std::int64_t width = f.x.shape.back(), local = width / ranks;
  const std::size_t last = f.x.shape.rank() - 1;
  const auto part = [&](const Array& array, std::int64_t rank) {
    return slice(array, array.shape.rank() - 1, rank * local, local);
  };
  Gathered all;
  Arrays moments, y, sums, x_grad;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    moments.push_back(
        apply(op::LayerNormMoments{parts / ranks}, backend, {part(f.x, rank)}).values[0]);
  all.moments = concatenated(moments, 0);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Arrays outputs =
        apply(op::LayerNormApply{epsilon, true, width}, backend,
              {part(f.x, rank), all.moments, part(f.gain, rank), part(f.bias, rank)})
            .values;
    if (rank > 0) {
      EXPECT_EQ(outputs[1].data, all.mean.data) << "every rank merges to the same bits";
      EXPECT_EQ(outputs[2].data, all.rstd.data);
    }
    y.push_back(outputs[0]);
    all.mean = outputs[1], all.rstd = outputs[2];
  }
  all.y = concatenated(y, last);
  const auto gradient_reads = [&](std::int64_t rank) {
    return Arrays{part(f.x, rank), part(f.gain, rank), all.mean, all.rstd, part(f.y_grad, rank)};
  };
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    sums.push_back(apply(op::LayerNormGradientSums{}, backend, gradient_reads(rank)).values[0]);
  all.sums = sum(sums);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    Arrays reads = gradient_reads(rank);
    reads.push_back(all.sums);
    x_grad.push_back(apply(op::LayerNormGradientApply{width}, backend, reads).values[0]);
  }
  all.x_grad = concatenated(x_grad, last);
  return all;
}

/// The bound of the whole norm is that of its parts: 8 eps sqrt(C) times what rounds.
TEST(LayerNormParts, are_the_whole_layer_norm_for_every_number_of_parts_and_ranks) {
  for (const auto& [parts, ranks] :
       {std::array<std::int64_t, 2>{1, 1}, {2, 1}, {2, 2}, {4, 2}, {12, 3}, {12, 12}, {60, 4}})
    for (const Backend& backend :
         {Backend{"reference", DType::f32}, Backend{"vector", DType::f32}, Backend{"vector"}}) {
      const std::string what = format("{} parts, {} ranks, {}", parts, ranks, to_string(backend));
      ForwardInParts f = forward({2, 3, 60}, parts, 0.5);
      f.x = rounded(op::LayerNorm{}, 0, backend.dtype, f.x);
      f.y_grad = rounded(op::LayerNorm{}, 0, backend.dtype, f.y_grad);
      f.gain = rounded(op::LayerNorm{}, 0, backend.dtype, f.gain);
      f.bias = rounded(op::LayerNorm{}, 0, backend.dtype, f.bias);
      const Arrays whole = apply(op::LayerNorm{epsilon, true}, exact, {f.x, f.gain, f.bias}).values;
      const Array x_grad =
          apply(op::LayerNormGradient{}, exact, {f.x, f.gain, whole[1], whole[2], f.y_grad})
              .values[0];
      const Gathered got = run_on_ranks(backend, f, parts, ranks);
      const double bound = 8 * rounding(backend) * std::sqrt(60.);
      expect_near(got.mean, whole[1], filled(got.mean.shape, 1.5), bound, "mean, " + what);
      // The variance is about 1/3 and distances of means below 2, all of it relative to 1.5^2.
      const double growth = 1 + 3 * 1.5 * 1.5;
      expect_near(got.rstd, whole[2], filled(got.rstd.shape, 2 * growth), bound, "rstd, " + what);
      expect_near(got.y, whole[0], filled(got.y.shape, (1.5 + 1.5) * 2 * growth + 1), bound,
                  "y, " + what);
      expect_near(got.x_grad, x_grad, filled(x_grad.shape, 2 * (1 + 1 + 6 * 6) * growth), bound,
                  "x_grad, " + what);
    }
}

/// The bits of moments, statistics and results belong to the number of parts, not to that of ranks.
TEST(LayerNormParts, have_the_same_bits_however_many_ranks_share_them) {
  const ForwardInParts f = forward({4, 3, 96}, 12, 0.5);
  for (const Backend& backend : backends_of(op::LayerNormMoments{})) {
    const Gathered whole = run_on_ranks(backend, f, 12, 1);
    for (const std::int64_t ranks : {2, 3, 4, 12}) {
      const Gathered cut = run_on_ranks(backend, f, 12, ranks);
      EXPECT_EQ(cut.moments.data, whole.moments.data) << to_string(backend) << " " << ranks;
      EXPECT_EQ(cut.mean.data, whole.mean.data) << to_string(backend) << " " << ranks;
      EXPECT_EQ(cut.rstd.data, whole.rstd.data) << to_string(backend) << " " << ranks;
      EXPECT_EQ(cut.y.data, whole.y.data) << to_string(backend) << " " << ranks;
    }
  }
}

/// One element of a gradient by central differences of the chain of ops.
TEST(LayerNormParts, gradient_equals_central_differences_of_the_chain) {
  const ForwardInParts f = forward({2, 3, 6}, 3, 0.3);
  const auto norm = [](const Arrays& reads) {
    const Array moments = apply(op::LayerNormMoments{3}, exact, {reads[0]}).values[0];
    return apply(op::LayerNormApply{epsilon, true, 6}, exact,
                 {reads[0], moments, reads[1], reads[2]})
        .values;
  };
  const Gathered got = run_on_ranks({"vector"}, f, 3, 3);
  const Arrays reads = {f.x, f.gain, f.bias};
  expect_gradient("layer norm in parts", norm, reads, 0, {f.y_grad}, got.x_grad);
  const Arrays weights = apply(op::LayerNormWeightGradient{true, false}, {"vector"},
                               {f.x, got.mean, got.rstd, f.y_grad})
                             .values;
  expect_gradient("layer norm in parts", norm, reads, 1, {f.y_grad}, weights[0]);
  expect_gradient("layer norm in parts", norm, reads, 2, {f.y_grad}, weights[1]);
}

/// x = 1e6 + noise in float: neighbours are 1/16 apart. A block's moments are right to the last bit
/// of the mean and to rounding in the squares; two passes without correction are 1e-3 off. Merging
/// loses what the rounding of the means costs, not eps offset^2 = 1e5.
TEST(LayerNormMoments, a_large_offset_leaves_them_right) {
  const double offset = 1e6, eps = std::numeric_limits<float>::epsilon();
  const Array x =
      rounded(op::LayerNorm{}, 0, DType::f32, uniform({6, 512}, "x", offset - 10, offset + 10));
  const Arrays whole =
      apply(op::LayerNorm{epsilon, true}, exact, {x, filled({512}, 1), filled({512}, 0)}).values;
  for (const Backend& backend : {Backend{"reference", DType::f32}, Backend{"vector", DType::f32}})
    for (const std::int64_t parts : {1, 2, 4, 8}) {
      const auto width = static_cast<double>(512 / parts);
      const Array moments = apply(op::LayerNormMoments{parts}, backend, {x}).values[0];
      const Array expected = apply(op::LayerNormMoments{parts}, exact, {x}).values[0];
      double largest_distance = 0;
      for (std::size_t i = 0; i < moments.data.size(); i += 2) {
        EXPECT_NEAR(moments.data[i], expected.data[i], eps * offset) << to_string(backend);
        EXPECT_NEAR(moments.data[i + 1] / expected.data[i + 1], 1, 8 * eps * std::sqrt(width))
            << to_string(backend) << " " << parts;
        largest_distance =
            std::max(largest_distance, std::abs(expected.data[i] - whole[1].data[i / 2 % 6]) * 2);
      }
      const Arrays got = apply(op::LayerNormApply{epsilon, true, 512}, backend,
                               {x, moments, filled({512}, 1), filled({512}, 0)})
                             .values;
      // Each mean and each step of merging rounds by eps offset / 2; a distance has two of them.
      const double mean_error = static_cast<double>(parts + 1) * eps * offset / 2;
      const double distance_error = 2 * mean_error;
      const double variance_error =
          parts == 1 ? 0 : distance_error * (2 * largest_distance + distance_error);
      for (std::size_t row = 0; row < 6; ++row) {
        const double variance = std::pow(whole[2].data[row], -2);
        EXPECT_NEAR(got[1].data[row], whole[1].data[row], mean_error) << to_string(backend);
        EXPECT_NEAR(got[2].data[row] / whole[2].data[row], 1,
                    variance_error / variance + 8 * eps * std::sqrt(512.))
            << to_string(backend) << " " << parts;
      }
    }
}

TEST(LayerNormParts, do_not_hide_a_nan) {
  for (const Backend& backend : backends_of(op::LayerNormMoments{})) {
    Array x = uniform({2, 8}, "x");
    x.data[3] = NAN;
    const Array moments = apply(op::LayerNormMoments{2}, backend, {x}).values[0];
    EXPECT_TRUE(std::isnan(moments.data[0]) && std::isnan(moments.data[1])) << to_string(backend);
    const Arrays y = apply(op::LayerNormApply{epsilon, true, 8}, backend,
                           {x, moments, filled({8}, 1), filled({8}, 0)})
                         .values;
    for (std::size_t c = 0; c < 8; ++c) {
      EXPECT_TRUE(std::isnan(y[0].data[c])) << to_string(backend);
      EXPECT_FALSE(std::isnan(y[0].data[8 + c])) << to_string(backend);
    }
  }
}

/// The correction is then all of the squares but for rounding, which has either sign. So many
/// elements, that the square of their number is no float.
TEST(LayerNormMoments, of_equal_elements_have_no_negative_squares) {
  for (const Backend& backend : backends_of(op::LayerNormMoments{}))
    for (const std::int64_t width : {5003, 5501, 6007})
      for (int divisor = 1; divisor < 20; ++divisor) {
        const Array x = filled({1, width}, 1e10 / divisor);
        const Array moments = apply(op::LayerNormMoments{1}, backend, {x}).values[0];
        EXPECT_GE(moments.data[1], 0) << to_string(backend) << " " << divisor;
      }
}

}  // namespace
}  // namespace fourfold::numerics
