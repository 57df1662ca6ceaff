// Layer norm and its gradients. C channels.
#include <gtest/gtest.h>

#include <cmath>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// The operands of the gradient ops that come from the forward op.
struct Forward {
  Array x, gain, bias, y_grad, mean, rstd;
};
Forward forward(const Shape& shape, double offset) {
  Forward f{uniform(shape, "x", offset - 1, offset + 1),
            uniform({shape.back()}, "gain"),
            uniform({shape.back()}, "bias"),
            uniform(shape, "grad"),
            {},
            {}};
  const Arrays outputs = apply(op::LayerNorm{}, exact, {f.x, f.gain, f.bias}).values;
  f.mean = outputs[1], f.rstd = outputs[2];
  return f;
}

/// (|x| + |mean|) rstd: what the rounding of a normalised element is relative to.
double normal_abs(const Array& x, const Array& mean, const Array& rstd, std::size_t i) {
  const std::size_t row = i / at(x.shape.back());
  return (std::abs(x.data[i]) + std::abs(mean.data[row])) * rstd.data[row];
}

/// The rounding of a mean is relative to the mean of absolute values, which a row that sums up to
/// nearly nothing has too, and every normalised element has that of the mean in it.
Arrays norm_magnitude(const Case& sample, const Arrays& outputs) {
  const Array &x = sample.reads[0], &gain = sample.reads[1];
  Arrays magnitude = outputs;
  for (std::size_t row = 0; row < outputs[1].data.size(); ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < gain.data.size(); ++c)
      sum += std::abs(x.data[row * gain.data.size() + c]);
    magnitude[1].data[row] = sum / static_cast<double>(gain.data.size());
  }
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const std::size_t c = i % gain.data.size();
    magnitude[0].data[i] = normal_abs(x, magnitude[1], outputs[2], i) * std::abs(gain.data[c]) +
                           (sample.reads.size() > 2 ? std::abs(sample.reads[2].data[c]) : 0);
  }
  return magnitude;
}

Arrays norm_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const Array &x = sample.reads[0], &gain = sample.reads[1], &mean = sample.reads[2],
              &rstd = sample.reads[3], &grad = sample.reads[4];
  const std::size_t channels = gain.data.size();
  Arrays magnitude = outputs;
  for (std::size_t row = 0; row < mean.data.size(); ++row) {
    double sum = 0, sum_normal = 0;
    for (std::size_t i = row * channels; i < (row + 1) * channels; ++i) {
      sum += std::abs(grad.data[i] * gain.data[i % channels]);
      sum_normal += std::abs(grad.data[i] * gain.data[i % channels]) * normal_abs(x, mean, rstd, i);
    }
    for (std::size_t i = row * channels; i < (row + 1) * channels; ++i)
      magnitude[0].data[i] = rstd.data[row] * (std::abs(grad.data[i] * gain.data[i % channels]) +
                                               (sum + normal_abs(x, mean, rstd, i) * sum_normal) /
                                                   static_cast<double>(channels));
  }
  return magnitude;
}

Arrays weight_magnitude(const Case& sample, const Arrays& outputs) {
  const Array &x = sample.reads[0], &mean = sample.reads[1], &rstd = sample.reads[2],
              &grad = sample.reads[3];
  Arrays magnitude = outputs;
  for (std::size_t output = 0; output < outputs.size(); ++output)
    for (std::size_t c = 0; c < outputs[output].data.size(); ++c) {
      double sum = sample.updates.empty() ? 0 : std::abs(sample.updates[output].data[c]);
      for (std::size_t i = c; i < x.data.size(); i += outputs[output].data.size())
        sum += std::abs(grad.data[i]) * (output == 0 ? normal_abs(x, mean, rstd, i) : 1);
      magnitude[output].data[c] = sum;
    }
  return magnitude;
}

void add_cases(std::vector<Case>& cases, const std::string& name, const Shape& shape,
               double offset) {
  const Forward f = forward(shape, offset);
  const auto channels = static_cast<double>(shape.back());
  const auto rows = static_cast<double>(f.mean.data.size());
  cases.push_back(
      {name, op::LayerNorm{1e-5, true}, {f.x, f.gain, f.bias}, {}, channels, norm_magnitude});
  cases.push_back({name + " without bias",
                   op::LayerNorm{1e-5, false},
                   {f.x, f.gain},
                   {},
                   channels,
                   norm_magnitude});
  cases.push_back({name,
                   op::LayerNormGradient{},
                   {f.x, f.gain, f.mean, f.rstd, f.y_grad},
                   {},
                   channels,
                   norm_gradient_magnitude});
  const Arrays reads = {f.x, f.mean, f.rstd, f.y_grad};
  const Arrays old = {uniform({shape.back()}, "old gain"), uniform({shape.back()}, "old bias")};
  cases.push_back(
      {name, op::LayerNormWeightGradient{true, false}, reads, {}, rows, weight_magnitude});
  cases.push_back({name + " adding", op::LayerNormWeightGradient{true, true}, reads, old, rows,
                   weight_magnitude});
  cases.push_back({name + " gain only",
                   op::LayerNormWeightGradient{false, true},
                   reads,
                   {old[0]},
                   rows,
                   weight_magnitude});
}

}  // namespace

std::vector<Case> norm_cases() {
  std::vector<Case> cases;
  add_cases(cases, "size one", {1, 1}, 0);
  add_cases(cases, "odd sizes", {3, 5, 7}, 0.5);
  add_cases(cases, "large", {7, 31, 130}, 0);
  add_cases(cases, "teams of warps for a row", {5, 1032}, 0.5);
  add_cases(cases, "large teams of warps for a row", {3, 2060}, 0.5);
  add_cases(cases, "more than a block has threads for", {2, 8200}, 0.5);
  return cases;
}

namespace {

void expect_norm_gradients(bool bias) {
  const Forward f = forward({2, 3, 5}, 0.3);
  const op::LayerNorm op{1e-5, bias};
  const Arrays reads = bias ? Arrays{f.x, f.gain, f.bias} : Arrays{f.x, f.gain};
  const Backend backend{"vector"};
  expect_gradient(
      op, reads, 0, {f.y_grad},
      apply(op::LayerNormGradient{}, backend, {f.x, f.gain, f.mean, f.rstd, f.y_grad}).values[0]);
  const Arrays weights =
      apply(op::LayerNormWeightGradient{bias, false}, backend, {f.x, f.mean, f.rstd, f.y_grad})
          .values;
  expect_gradient(op, reads, 1, {f.y_grad}, weights[0]);
  if (bias) expect_gradient(op, reads, 2, {f.y_grad}, weights[1]);
}

TEST(LayerNormGradient, equals_central_differences_with_bias) {
  expect_norm_gradients(true);
}
TEST(LayerNormGradient, equals_central_differences_without_bias) {
  expect_norm_gradients(false);
}

/// A one-pass variance loses everything here: eps * offset^2 = 12 against a variance of 1/3. Two
/// passes lose only what the rounding of the mean costs, n eps offset at most.
TEST(LayerNorm, a_large_offset_leaves_the_variance_right) {
  for (const Backend& backend : {Backend{"reference", DType::f32}, Backend{"vector", DType::f32}}) {
    const Array x =
        rounded(op::LayerNorm{}, 0, DType::f32, uniform({6, 130}, "x", 1e4 - 1, 1e4 + 1));
    const Arrays reads = {x, filled({130}, 1), filled({130}, 0)};
    const Arrays got = apply(op::LayerNorm{}, backend, reads).values;
    const Arrays expected = apply(op::LayerNorm{}, exact, reads).values;
    const double mean_error = 8 * std::numeric_limits<float>::epsilon() * std::sqrt(130.) * 1e4;
    for (std::size_t row = 0; row < 6; ++row) {
      EXPECT_NEAR(got[1].data[row], expected[1].data[row], mean_error);
      EXPECT_NEAR(got[2].data[row] / expected[2].data[row], 1, 1e-4) << to_string(backend);
    }
    for (std::size_t i = 0; i < x.data.size(); ++i)
      EXPECT_NEAR(got[0].data[i], expected[0].data[i], 2 * mean_error) << to_string(backend);
  }
}

}  // namespace
}  // namespace fourfold::numerics
