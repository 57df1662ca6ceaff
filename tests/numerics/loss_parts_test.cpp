// Cross entropy where ranks share the vocabulary: maxima, sums, and what is made of them. The count
// of correct labels, which reads the maxima too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "numerics/harness.h"
#include "numerics/parts.h"

namespace fourfold::numerics {
namespace {

/// A maximum does not round.
Arrays no_error(const Case&, const Arrays& outputs) {
  return {filled(outputs[0].shape, 0)};
}

/// exp(a - b) rounds relative to 1 + |a| + |b|.
Arrays loss_sums_magnitude(const Case& sample, const Arrays& outputs) {
  const Array &logits = sample.reads[0], &max = sample.reads[2];
  const std::size_t vocabulary = at(logits.shape.back());
  double largest = 0;
  for (const double logit : logits.data) largest = std::max(largest, std::abs(logit));
  Arrays magnitude = outputs;
  for (std::size_t row = 0; row < max.data.size(); ++row) {
    double sum = 0;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      const double logit = logits.data[row * vocabulary + v];
      sum += std::exp(logit - max.data[row]) * (1 + std::abs(logit) + std::abs(max.data[row]));
    }
    magnitude[0].data[row] = sum;
    magnitude[1].data[row] = largest + std::abs(max.data[row]);
  }
  return magnitude;
}

Arrays merge_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  for (std::size_t row = 0; row < outputs[0].data.size(); ++row) {
    const double log_sum = 1 + std::abs(std::log(sample.reads[1].data[row]));
    magnitude[0].data[row] = log_sum + std::abs(sample.reads[2].data[row]);
    magnitude[1].data[row] = log_sum + std::abs(sample.reads[0].data[row]);
  }
  return magnitude;
}

/// scale (p (1 + |logit| + |lse|) + [label]), the label being one of any column.
Arrays loss_parts_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const double scale = std::abs(sample.op.get<op::CrossEntropyGradient>().scale);
  const Array &logits = sample.reads[0], &lse = sample.reads[2];
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < logits.data.size(); ++i) {
    const double row_lse = lse.data[i / at(logits.shape.back())];
    const double p = std::exp(logits.data[i] - row_lse);
    magnitude[0].data[i] = scale * (p * (1 + std::abs(logits.data[i]) + std::abs(row_lse)) + 1);
  }
  return magnitude;
}

/// Logits are small integers, so that some share a maximum and all are exact in any type.
Case count_case(const Shape& rows, std::int64_t columns, const op::CountCorrect& op) {
  Shape shape = rows;
  shape.push_back(columns);
  const Array logits = integers(shape, "logits", 4),
              labels = integers(rows, "labels", std::max(columns, op.columns), 5);
  const Array max = apply(op::LogitMax{}, exact, {logits}).values[0];
  Case made{format("{} columns from {}", columns, op.first_column), op, {logits, labels, max}};
  if (op.accumulate) made.updates = {scalar(17)};
  return made;
}

}  // namespace

std::vector<Case> loss_parts_cases() {
  std::vector<Case> cases;
  // A part of `local` columns from `first` on, of a vocabulary of `columns`.
  for (const auto& [batch, time, local, first, columns] :
       {std::array<std::int64_t, 5>{1, 1, 1, 0, 0},
        {3, 5, 7, 0, 0},
        {3, 5, 7, 7, 12},
        {3, 5, 7, 14, 12},
        {4, 70, 65, 65, 129},
        {1, 3, 20011, 0, 50257}}) {
    const std::int64_t bound = columns == 0 ? local : columns;
    const Array logits = uniform({batch, time, local}, "logits", -8, 8);
    const Array labels = integers({batch, time}, "labels", bound, 4);
    const Array max = uniform({batch, time}, "max", 8, 9),
                lse = uniform({batch, time}, "lse", 8, 12);
    const std::string name = format("columns from {} of {}", first, bound);
    cases.push_back({name, op::LogitMax{first, columns}, {logits}, {}, 1, no_error});
    cases.push_back({name,
                     op::LogitSums{first, columns},
                     {logits, labels, max},
                     {},
                     static_cast<double>(local),
                     loss_sums_magnitude});
    cases.push_back({name,
                     op::CrossEntropyMerge{},
                     {max, uniform({batch, time}, "sums", 1, 100),
                      uniform({batch, time}, "label logits", -20, 0), labels},
                     {},
                     1,
                     merge_magnitude});
    cases.push_back({name,
                     op::CrossEntropyGradient{0.01, first, columns},
                     {logits, labels, lse},
                     {},
                     1,
                     loss_parts_gradient_magnitude});
  }
  cases.push_back(count_case({5}, 7, {}));
  cases.push_back(count_case({2, 300}, 10, {.accumulate = true}));
  cases.push_back(count_case({300}, 7, {.first_column = 7, .columns = 12}));
  cases.push_back(count_case({300}, 7, {.first_column = 14, .columns = 12, .accumulate = true}));
  return cases;
}

namespace {

/// What ranks that share a vocabulary get together; `local` columns on each.
struct Together {
  Array loss, lse, gradient;
};
Together run_on_ranks(const Backend& backend, const Array& logits, const Array& labels,
                      std::int64_t local, std::int64_t ranks, double scale) {
  const std::int64_t columns = logits.shape.back();
  const std::size_t last = logits.shape.rank() - 1;
  Array max = filled(labels.shape, -std::numeric_limits<double>::infinity());
  Arrays parts, sum_exp, label_logit, gradient;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    parts.push_back(slice(logits, last, rank * local, local));  // padding is NaN
    const Array here =
        apply(op::LogitMax{rank * local, columns}, backend, {parts.back()}).values[0];
    for (std::size_t row = 0; row < max.data.size(); ++row)
      max.data[row] = std::max(max.data[row], here.data[row]);
  }
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Arrays sums =
        apply(op::LogitSums{rank * local, columns}, backend, {parts[at(rank)], labels, max}).values;
    sum_exp.push_back(sums[0]);
    label_logit.push_back(sums[1]);
  }
  const Arrays loss =
      apply(op::CrossEntropyMerge{}, backend, {max, sum(sum_exp), sum(label_logit), labels}).values;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    gradient.push_back(apply(op::CrossEntropyGradient{scale, rank * local, columns}, backend,
                             {parts[at(rank)], labels, loss[1]}, {}, Aliasing::where_allowed)
                           .values[0]);
  const Array all = concatenated(gradient, last);
  for (std::int64_t column = columns; column < local * ranks; ++column)
    for (const double value : slice(all, last, column, 1).data)
      EXPECT_EQ(value, 0) << "padding has no gradient";
  return {loss[0], loss[1], slice(all, last, 0, columns)};
}

/// Uneven parts, parts of nothing but padding, labels of -1.
TEST(VocabularyParts, give_the_whole_cross_entropy) {
  const Array logits = uniform({3, 5, 65}, "logits", -8, 8);
  const Array labels = integers({3, 5}, "labels", 65, 4);
  for (const auto& [local, ranks] :
       {std::array<std::int64_t, 2>{65, 1}, {33, 2}, {17, 4}, {16, 6}, {1, 66}})
    for (const Backend& backend : backends_of(op::LogitMax{})) {
      const std::string what = format("{} columns, {} ranks, {}", local, ranks, to_string(backend));
      const Array held = rounded(op::CrossEntropy{}, 0, backend.dtype, logits);
      const Arrays whole = apply(op::CrossEntropy{}, exact, {held, labels}).values;
      const Array gradient =
          apply(op::CrossEntropyGradient{0.5}, exact, {held, labels, whole[1]}).values[0];
      const Together got = run_on_ranks(backend, held, labels, local, ranks, 0.5);
      const double bound = 8 * rounding(backend) * std::sqrt(65.);
      expect_near(got.loss, whole[0], filled(labels.shape, 1 + 2 * 8 + 13), bound, "loss, " + what);
      expect_near(got.lse, whole[1], filled(labels.shape, 1 + 2 * 8 + 13), bound, "lse, " + what);
      const double stored = backend.dtype == DType::bf16 ? 0x1p-7 : 0;
      expect_near(got.gradient, gradient, filled(gradient.shape, 0.5 * (1 + 8 + 13 + 1)),
                  bound + stored, "gradient, " + what);
    }
}

TEST(VocabularyParts, of_huge_logits_neither_overflow_nor_lose_the_label) {
  // The loss of a label 3 below a maximum of 1e6 is 3: lse - logit would round it to 1/16.
  const Array logits{{3, 4}, {1e6, 1e6 - 3, -1e6, 0, -3e38, -3e38, -3e38, -3e38, 3e38, 0, 0, 3e38}};
  const Array labels{{3}, {1, 2, 3}};
  for (const Backend& backend : {Backend{"reference", DType::f32}, Backend{"vector", DType::f32},
                                 Backend{"vector", DType::f64}}) {
    const Together got = run_on_ranks(backend, logits, labels, 3, 3, 1);
    EXPECT_NEAR(got.loss.data[0], 3 + std::log1p(std::exp(-3.)), 4 * rounding(backend));
    EXPECT_NEAR(got.loss.data[1], std::log(4.), 4 * rounding(backend));
    EXPECT_NEAR(got.loss.data[2], std::log(2.), 4 * rounding(backend));
    for (const double value : got.gradient.data) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(VocabularyParts, of_nothing_but_padding_are_neutral) {
  const Array logits = filled({2, 3}, NAN), labels{{2}, {4, -1}}, max = filled({2}, 1.5);
  for (const Backend& backend : backends_of(op::LogitMax{})) {
    const double lowest = -std::numeric_limits<double>::infinity();
    EXPECT_EQ(apply(op::LogitMax{6, 5}, backend, {logits}).values[0].data,
              (std::vector<double>{lowest, lowest}))
        << to_string(backend);
    const Arrays sums = apply(op::LogitSums{6, 5}, backend, {logits, labels, max}).values;
    EXPECT_EQ(sums[0].data, (std::vector<double>{0, 0})) << to_string(backend);
    EXPECT_EQ(sums[1].data, (std::vector<double>{0, 0})) << to_string(backend);
    EXPECT_EQ(
        apply(op::CrossEntropyGradient{1, 6, 5}, backend, {logits, labels, max}).values[0].data,
        std::vector<double>(6, 0))
        << to_string(backend);
  }
}

TEST(VocabularyParts, do_not_hide_a_nan) {
  const Array labels{{2}, {0, 0}};
  for (const Backend& backend : backends_of(op::LogitMax{})) {
    const Array logits{{2, 4}, {0, 1, NAN, 2, 0, 1, 2, 3}};
    const Together got = run_on_ranks(backend, logits, labels, 2, 2, 1);
    EXPECT_TRUE(std::isnan(got.loss.data[0])) << to_string(backend);
    EXPECT_FALSE(std::isnan(got.loss.data[1])) << to_string(backend);
  }
}

TEST(CountCorrect, counts_labels_that_share_the_maximum_and_leaves_others_out) {
  // The label is the maximum, shares it, is below it, is none.
  const Array logits{{4, 3}, {1, 2, 0, 3, 3, 1, 5, 4, 0, 1, 2, 3}}, labels{{4}, {1, 1, 1, -1}},
      max{{4}, {2, 3, 5, 3}};
  for (const Backend& backend : backends_of(op::CountCorrect{})) {
    SCOPED_TRACE(to_string(backend));
    EXPECT_EQ(apply(op::CountCorrect{}, backend, {logits, labels, max}).values[0].data,
              std::vector<double>{2});
    EXPECT_EQ(
        apply(op::CountCorrect{.accumulate = true}, backend, {logits, labels, max}, {scalar(40)})
            .values[0]
            .data,
        std::vector<double>{42});
  }
}

TEST(CountCorrect, of_parts_of_the_columns_adds_up_to_that_of_all) {
  const Array logits = integers({50, 10}, "logits", 4), labels = integers({50}, "labels", 10, 5);
  for (const Backend& backend : backends_of(op::CountCorrect{})) {
    const Array max = apply(op::LogitMax{}, backend, {logits}).values[0];
    const double whole =
        apply(op::CountCorrect{}, backend, {logits, labels, max}).values[0].data[0];
    EXPECT_GT(whole, 5);
    double together = 0;
    for (std::int64_t first = 0; first < 12; first += 4) {
      Array part = filled({50, 4}, 3);  // padding is as large as any
      for (std::size_t row = 0; row < 50; ++row)
        for (std::size_t v = 0; v < 4; ++v)
          if (static_cast<std::size_t>(first) + v < 10)
            part.data[row * 4 + v] = logits.data[row * 10 + static_cast<std::size_t>(first) + v];
      together +=
          apply(op::CountCorrect{first, 10}, backend, {part, labels, max}).values[0].data[0];
    }
    EXPECT_EQ(together, whole) << to_string(backend);
  }
}

/// d sum_exp / d logit = exp(logit - max), d label_logit / d logit = [label].
TEST(LogitSums, have_the_derivatives_of_their_definition) {
  const Array logits = uniform({2, 3, 5}, "logits", -2, 2),
              labels = integers({2, 3}, "labels", 9, 3), max = uniform({2, 3}, "max", 1, 3);
  const Arrays weights = {uniform({2, 3}, "first"), uniform({2, 3}, "second")};
  Array gradient = filled(logits.shape, 0);
  for (std::size_t i = 0; i < logits.data.size(); ++i) {
    const std::size_t row = i / 5;
    const bool hit = labels.data[row] == static_cast<double>(i % 5) + 2;
    gradient.data[i] = weights[0].data[row] * std::exp(logits.data[i] - max.data[row]) +
                       (hit ? weights[1].data[row] : 0);
  }
  expect_gradient(op::LogitSums{2, 9}, {logits, labels, max}, 0, weights, gradient);
}

TEST(CrossEntropyGradient, of_a_part_equals_central_differences_of_the_chain) {
  const Array logits = uniform({2, 3, 5}, "logits", -2, 2),
              labels = integers({2, 3}, "labels", 5, 3);
  const auto chain = [&](const Arrays& reads) {
    return Arrays{run_on_ranks(exact, reads[0], labels, 3, 2, 1).loss};
  };
  expect_gradient("cross entropy in parts", chain, {logits}, 0, {filled({2, 3}, 0.25)},
                  run_on_ranks({"vector"}, logits, labels, 3, 2, 0.25).gradient);
}

}  // namespace
}  // namespace fourfold::numerics
