// Dropout: its values, its statistics, and that the mask depends on nothing but the element.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/dropout_mask.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

op::Dropout dropout(double rate, op::SampleWindow window = {0, 0, 0}) {
  return {random_stream("blocks.0.dropout"), rate, window};
}
Arrays dropout_reads(const Array& x, double step = 3) {
  return {x, scalar(1234), scalar(step)};
}

}  // namespace

std::vector<Case> dropout_cases() {
  return {
      {"size one", dropout(0.5), dropout_reads(uniform({1}, "x"))},
      {"nothing", dropout(0), dropout_reads(uniform({2, 3}, "x"))},
      {"odd sizes", dropout(0.3, {2, 12, 5}), dropout_reads(uniform({3, 5, 7}, "x"))},
      // 2^34 elements, beyond which the number of a block of four needs more than 32 bits, lie
      // inside.
      {"far elements", dropout(0.3, {0, 1, 490853400}), dropout_reads(uniform({20, 5, 7}, "x"))},
      {"large", dropout(0.1, {1, 10, 3}), dropout_reads(uniform({5, 67, 65}, "x"))}};
}

namespace {

TEST(DropoutGradient, is_dropout_of_the_gradient) {
  const Array x = uniform({3, 5, 2}, "x"), weight = uniform({3, 5, 2}, "weight");
  expect_gradient(dropout(0.4), dropout_reads(x), 0, {weight},
                  apply(dropout(0.4), {"vector"}, dropout_reads(weight)).values[0]);
}

TEST(Dropout, mask_is_the_same_on_every_backend) {
  const Arrays reads = dropout_reads(filled({5, 67, 65}, 1));
  const auto kept = [&](const Backend& backend) {
    std::vector<bool> mask;
    const Array y = apply(dropout(0.25), backend, reads).values[0];
    for (const double value : y.data) mask.push_back(value != 0);
    return mask;
  };
  for (const Backend& backend : backends_of(dropout(0.25))) EXPECT_EQ(kept(backend), kept(exact));
}

TEST(Dropout, mask_does_not_depend_on_how_a_batch_is_cut) {
  for (const Backend& backend : backends_of(dropout(0.4))) {
    const std::vector<double> whole =
        apply(dropout(0.4, {0, 12, 0}), backend, dropout_reads(filled({12, 5, 3}, 1)))
            .values[0]
            .data;
    std::vector<double> parts;
    for (const std::int64_t micro : {0, 1, 2})
      for (const std::int64_t first : {0, 2}) {
        const Array x = filled({2, 5, 3}, 1);
        const Array y = apply(dropout(0.4, {micro, 4, first}), backend, dropout_reads(x)).values[0];
        parts.insert(parts.end(), y.data.begin(), y.data.end());
      }
    EXPECT_EQ(parts, whole) << to_string(backend);
  }
}

TEST(Dropout, mask_changes_with_step_seed_and_stream) {
  const Array x = filled({64}, 1);
  const auto mask = [&](const op::Dropout& op, double seed, double step) {
    return apply(op, {"vector"}, {x, scalar(seed), scalar(step)}).values[0].data;
  };
  const std::vector<double> base = mask(dropout(0.5), 1, 1);
  EXPECT_NE(base, mask(dropout(0.5), 2, 1));
  EXPECT_NE(base, mask(dropout(0.5), 1, 2));
  EXPECT_NE(base, mask({random_stream("another"), 0.5, {}}, 1, 1));
}

TEST(Dropout, keeps_the_right_share) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const std::int64_t count = 100000;
    double kept = 0;
    const Array y = apply(dropout(rate), {"vector"}, dropout_reads(filled({count}, 1))).values[0];
    for (const double value : y.data) kept += value != 0 ? 1 : 0;
    const double sigma = std::sqrt(rate * (1 - rate) * static_cast<double>(count));
    EXPECT_NEAR(kept, (1 - rate) * static_cast<double>(count), 5 * sigma);
  }
}

TEST(Dropout, threshold_is_the_rate_in_units_of_two_to_the_minus_32) {
  EXPECT_EQ(kernels::dropout_threshold(0), 0U);
  EXPECT_EQ(kernels::dropout_threshold(0.5), 0x80000000U);
  EXPECT_EQ(kernels::dropout_threshold(1), 0xffffffffU);
}

}  // namespace
}  // namespace fourfold::numerics
