// Cross entropy, its gradient, the sum of losses. V vocabulary.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

double largest(const Array& array) {
  double result = 0;
  for (const double value : array.data) result = std::max(result, std::abs(value));
  return result;
}

/// Both outputs are differences and sums of logits: 1 + 2 max |logit| + |lse|.
Arrays loss_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  for (Array& array : magnitude)
    for (std::size_t i = 0; i < array.data.size(); ++i)
      array.data[i] = 1 + 2 * largest(sample.reads[0]) + std::abs(outputs[1].data[i]);
  return magnitude;
}

/// scale (p (1 + |logit| + |lse|) + [label]): the argument of exp rounds relative to its terms.
Arrays loss_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const double scale = std::abs(sample.op.get<op::CrossEntropyGradient>().scale);
  const Array &logits = sample.reads[0], &labels = sample.reads[1], &lse = sample.reads[2];
  Arrays magnitude = outputs;
  const std::size_t vocabulary = static_cast<std::size_t>(logits.shape.back());
  for (std::size_t i = 0; i < logits.data.size(); ++i) {
    const std::size_t row = i / vocabulary;
    const double p = std::exp(logits.data[i] - lse.data[row]);
    const double hit = static_cast<double>(i % vocabulary) == labels.data[row] ? 1 : 0;
    magnitude[0].data[i] =
        scale * (p * (1 + std::abs(logits.data[i]) + std::abs(lse.data[row])) + hit);
  }
  return magnitude;
}

}  // namespace

std::vector<Case> loss_cases() {
  std::vector<Case> cases;
  for (const auto& [batch, time, vocabulary] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {4, 70, 65}, {1, 3, 20011}}) {
    const Array logits = uniform({batch, time, vocabulary}, "logits", -8, 8);
    const Array labels = integers({batch, time}, "labels", vocabulary, 4);
    const Array lse = apply(op::CrossEntropy{}, exact, {logits, labels}).values[1];
    const auto length = static_cast<double>(vocabulary);
    cases.push_back({"logits", op::CrossEntropy{}, {logits, labels}, {}, length, loss_magnitude});
    cases.push_back({"logits",
                     op::CrossEntropyGradient{0.01},
                     {logits, labels, lse},
                     {},
                     1,
                     loss_gradient_magnitude});
    const Array losses = uniform({batch, time}, "losses", 0, 5);
    const auto tokens = static_cast<double>(batch * time);
    cases.push_back({"overwriting", op::LossSum{false}, {losses, labels}, {}, tokens});
    cases.push_back(
        {"adding", op::LossSum{true}, {losses, labels}, {scalar(3.5), scalar(17)}, tokens});
  }
  return cases;
}

namespace {

TEST(CrossEntropyGradient, equals_central_differences_also_with_ignored_labels) {
  const Array logits = uniform({2, 3, 5}, "logits", -2, 2),
              labels = integers({2, 3}, "labels", 5, 3);
  const Arrays forward = apply(op::CrossEntropy{}, exact, {logits, labels}).values;
  for (const Backend& backend : {exact, Backend{"vector"}})
    expect_gradient(
        op::CrossEntropy{}, {logits, labels}, 0, {filled({2, 3}, 0.25)},
        apply(op::CrossEntropyGradient{0.25}, backend, {logits, labels, forward[1]}).values[0]);
}

TEST(CrossEntropy, a_label_of_minus_one_has_no_loss_and_no_gradient) {
  const Array logits = uniform({2, 7}, "logits"), labels{{2}, {-1, 3}};
  for (const Backend& backend : backends_of(op::CrossEntropy{})) {
    const Arrays forward = apply(op::CrossEntropy{}, backend, {logits, labels}).values;
    EXPECT_EQ(forward[0].data[0], 0) << to_string(backend);
    EXPECT_GT(forward[0].data[1], 0) << to_string(backend);
    const Array grad =
        apply(op::CrossEntropyGradient{1}, backend, {logits, labels, forward[1]}).values[0];
    for (std::size_t v = 0; v < 7; ++v) EXPECT_EQ(grad.data[v], 0) << to_string(backend);
    const Arrays sums = apply(op::LossSum{}, backend, {forward[0], labels}).values;
    EXPECT_EQ(sums[1].data[0], 1);
  }
}

TEST(CrossEntropy, large_logits_do_not_overflow_and_a_nan_is_not_hidden) {
  const Array logits{{2, 3}, {1000, -1000, 999, 0, NAN, 1}}, labels{{2}, {0, 0}};
  for (const Backend& backend : {Backend{"vector", DType::f32}, Backend{"vector", DType::f64}}) {
    const Arrays y = apply(op::CrossEntropy{}, backend, {logits, labels}).values;
    EXPECT_NEAR(y[1].data[0], 1000 + std::log1p(std::exp(-1.)), 1e-3);
    EXPECT_TRUE(std::isnan(y[0].data[1]));
  }
}

TEST(CrossEntropy, the_largest_logit_may_come_late_and_far_ahead_of_all_before) {
  constexpr std::int64_t columns = 9000;
  const Array noise = uniform({columns}, "noise");
  Array logits = filled({3, columns}, 0);
  for (std::size_t v = 0; v < columns; ++v) {
    const double step = static_cast<double>(v / 1000);
    logits.data[v] = noise.data[v] + 50 * step;                       // overtakes what came before
    logits.data[columns + v] = v < 5000 ? -INFINITY : noise.data[v];  // begins with nothing
    logits.data[2 * columns + v] = noise.data[v] + 30 * step;         // a little ahead each time
  }
  const Array labels{{3}, {8999, 7000, 8999}};
  const Arrays reference = apply(op::CrossEntropy{}, exact, {logits, labels}).values;
  for (const Backend& backend : backends_of(op::CrossEntropy{})) {
    if (backend.dtype == DType::bf16) continue;
    const Arrays y = apply(op::CrossEntropy{}, backend, {logits, labels}).values;
    for (std::size_t row = 0; row < 3; ++row) {
      const double bound = 1e-6 * (1 + std::abs(reference[1].data[row]));
      EXPECT_NEAR(y[0].data[row], reference[0].data[row], bound) << to_string(backend) << row;
      EXPECT_NEAR(y[1].data[row], reference[1].data[row], bound) << to_string(backend) << row;
    }
  }
}

}  // namespace
}  // namespace fourfold::numerics
