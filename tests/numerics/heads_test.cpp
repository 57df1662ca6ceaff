// What stands before attention and between two products: rotary positions, norms of heads, gates.
// B batch, T time, G groups, R heads of a group, D head width.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

op::Numbers waves(std::int64_t pairs) {
  op::Numbers made;
  for (std::int64_t i = 0; i < pairs; ++i)
    made.push_back(std::pow(10000., -static_cast<double>(i) / static_cast<double>(pairs)));
  return made;
}

/// Each element is a sum of two products, and an angle is rounded once in double.
Arrays rotary_magnitude(const Case& sample, const Arrays& outputs) {
  const auto& op = sample.op.get<op::Rotary>();
  const Array& x = sample.reads[0];
  const auto pairs = std::ssize(op.frequencies);
  Arrays made = outputs;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const std::int64_t d = static_cast<std::int64_t>(i) % x.shape.back();
    double sum = std::abs(x.data[i]);
    if (d < 2 * pairs) sum += std::abs(x.data[d < pairs ? i + at(pairs) : i - at(pairs)]);
    made[0].data[i] = std::max(1., std::abs(op.factor)) * sum;
  }
  return made;
}

/// |y|, and of a gate's factor what the rounding of its exponential makes.
Arrays gated_magnitude(const Case& sample, const Arrays& outputs) {
  const Array& x = sample.reads[0];
  const std::int64_t columns = x.shape.back();
  Arrays made = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const bool is_gradient = sample.reads.size() > 1;
    const std::int64_t row = index / columns / (is_gradient ? 2 : 1);
    const std::size_t gate = at(row * 2 * columns + index % columns), other = gate + at(columns);
    const double size = 1 + std::abs(x.data[gate]);
    if (!is_gradient) {
      made[0].data[i] = std::abs(outputs[0].data[i]) * size;
      continue;
    }
    const double grad = std::abs(sample.reads[1].data[at(row * columns + index % columns)]);
    made[0].data[i] = i == gate ? grad * std::abs(x.data[other]) * size * size
                                : std::abs(outputs[0].data[i]) * size;
  }
  return made;
}

Arrays head_norm_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays made = outputs;
  for (std::size_t i = 0; i < made[0].data.size(); ++i)
    made[0].data[i] = std::abs(outputs[0].data[i]);
  EXPECT_EQ(sample.reads.size(), 3U);
  return made;
}

/// The gradients of head norms with every term in absolute value.
Arrays head_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  Case absolute = sample;
  for (Array& array : absolute.reads)
    for (double& value : array.data) value = std::abs(value);
  Arrays made = outputs;
  if (sample.reads.size() == 3) return apply(absolute.op, exact, absolute.reads).values;
  const Array &x = absolute.reads[0], &rstd = absolute.reads[3], &grad = absolute.reads[4];
  const std::int64_t of_group = x.shape[3], width = x.shape[4];
  for (std::int64_t vector = 0; vector < x.shape.elements(0, 4); ++vector) {
    const std::int64_t place = vector % of_group;
    if (place == of_group - 1) {
      for (std::int64_t d = 0; d < width; ++d)
        made[0].data[at(vector * width + d)] = grad.data[at(vector * width + d)];
      continue;
    }
    const Array& gain = absolute.reads[place == of_group - 2 ? 2 : 1];
    const double of_vector = rstd.data[at(vector - vector / of_group)];
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d)
      sum += grad.data[at(vector * width + d)] * gain.data[at(d)] * x.data[at(vector * width + d)] *
             of_vector;
    for (std::int64_t d = 0; d < width; ++d)
      made[0].data[at(vector * width + d)] =
          of_vector *
          (grad.data[at(vector * width + d)] * gain.data[at(d)] +
           x.data[at(vector * width + d)] * of_vector * sum / static_cast<double>(width));
  }
  return made;
}

struct HeadNormReads {
  Array qkv, q_gain, k_gain, rstd, y_grad;
  explicit HeadNormReads(const Shape& shape)
      : qkv(uniform(shape, "qkv")),
        q_gain(uniform({shape.back()}, "q gain")),
        k_gain(uniform({shape.back()}, "k gain")),
        y_grad(uniform(shape, "grad")) {
    rstd = apply(op::HeadNorm{1e-6}, exact, {qkv, q_gain, k_gain}).values[1];
  }
};

}  // namespace

std::vector<Case> heads_cases() {
  std::vector<Case> cases;
  for (const Shape& shape :
       {Shape{2, 37, 3, 5, 64}, Shape{1, 5, 1, 3, 7}, Shape{3, 1, 2, 4, 130}}) {
    const Array qkv = uniform(shape, "qkv");
    const op::Numbers all = waves(shape.back() / 2);
    const auto add = [&](const op::Rotary& op, Arrays more) {
      more.insert(more.begin(), qkv);
      cases.push_back({"rotary", op, more, {}, 2, rotary_magnitude});
    };
    add({all, 1, false, 0, 3}, {});
    add({waves(1), 1.25, true}, {});
    add({all, 1, false, 5000}, {scalar(4321)});
    Array starts = filled({shape[0], shape[1]}, 0);
    for (std::size_t i = 0; i < starts.data.size(); ++i)
      starts.data[i] = static_cast<double>(i % at(shape[1]) / 3 * 3);
    add({all, 1, true, 0, 0, true}, {starts});
    const HeadNormReads reads(shape);
    const auto width = static_cast<double>(shape.back()),
               tokens = static_cast<double>(shape.elements(0, 4));
    cases.push_back({"head norm",
                     op::HeadNorm{1e-6},
                     {reads.qkv, reads.q_gain, reads.k_gain},
                     {},
                     width,
                     head_norm_magnitude});
    cases.push_back({"head norm",
                     op::HeadNormGradient{},
                     {reads.qkv, reads.q_gain, reads.k_gain, reads.rstd, reads.y_grad},
                     {},
                     width,
                     head_gradient_magnitude});
    cases.push_back({"head norm",
                     op::HeadNormWeightGradient{},
                     {reads.qkv, reads.rstd, reads.y_grad},
                     {},
                     tokens,
                     head_gradient_magnitude});
  }
  for (const Shape& shape : {Shape{5, 2, 1536}, Shape{2, 3, 2, 259}, Shape{1, 2, 40000}}) {
    const Array x = uniform(shape, "x", -12, 12);
    Shape half = {shape.elements(0, shape.rank() - 2), shape.back()};
    Shape y;
    for (std::size_t dim = 0; dim + 2 < shape.rank(); ++dim) y.push_back(shape[dim]);
    y.push_back(shape.back());
    cases.push_back({"gated", op::Gated{}, {x}, {}, 1, gated_magnitude});
    cases.push_back(
        {"gated", op::GatedGradient{}, {x, uniform(y, "grad")}, {}, 1, gated_magnitude});
  }
  return cases;
}

namespace {

const std::vector<Backend> exact_and_vector = {exact, {"vector"}, {"vector", DType::f64, 3}};

TEST(Rotary, multiplies_pairs_of_halves_with_complex_numbers) {
  const Shape shape{2, 5, 2, 4, 9};
  const Array qkv = uniform(shape, "qkv");
  const op::Rotary op{{1, 0.25, 0.01}, 1.5, false, 0, 2};
  for (const Backend& backend : exact_and_vector) {
    const Array y = apply(op, backend, {qkv}).values[0];
    for (std::int64_t vector = 0; vector < shape.elements(0, 4); ++vector)
      for (std::int64_t d = 0; d < 9; ++d) {
        const std::size_t from = at(vector * 9);
        double expected = qkv.data[from + at(d)];
        if (vector % 4 != 3 && d < 6) {
          const auto pair = at(d % 3);
          const double angle = static_cast<double>(2 + vector / 8 % 5) * op.frequencies[pair];
          const auto turned = 1.5 * std::polar(1., angle) *
                              std::complex(qkv.data[from + pair], qkv.data[from + pair + 3]);
          expected = d < 3 ? turned.real() : turned.imag();
        }
        EXPECT_NEAR(y.data[from + at(d)], expected, 1e-14) << to_string(backend);
      }
  }
}

TEST(Rotary, by_minus_the_angle_is_the_way_back) {
  const Array qkv = uniform({2, 70, 2, 4, 16}, "qkv");
  for (const Backend& backend : exact_and_vector) {
    const op::Rotary op{waves(8), 1, false, 0, 100};
    op::Rotary back = op;
    back.negative = true;
    const Array again = apply(back, backend, apply(op, backend, {qkv}).values).values[0];
    for (std::size_t i = 0; i < qkv.data.size(); ++i)
      EXPECT_NEAR(again.data[i], qkv.data[i], 1e-14);
  }
}

/// Tokens [first, first + count) of a sample.
Array tokens_of(const Array& qkv, std::int64_t sample, std::int64_t first, std::int64_t count) {
  Shape shape = qkv.shape;
  const std::int64_t of_token = shape.elements(2, 5);
  const auto from = qkv.data.begin() + (sample * shape[1] + first) * of_token;
  shape[0] = 1, shape[1] = count;
  return {shape, {from, from + count * of_token}};
}

TEST(Rotary, counts_positions_from_the_first_row_from_the_cache_or_from_documents) {
  const Array qkv = uniform({2, 12, 2, 3, 8}, "qkv");
  const op::Numbers all = waves(4);
  for (const Backend& backend :
       {exact, Backend{"vector", DType::f32}, Backend{"vector", DType::f32, 4}}) {
    SCOPED_TRACE(to_string(backend));
    const Array whole = apply(op::Rotary{all}, backend, {qkv}).values[0];
    const Array part = tokens_of(qkv, 1, 7, 5), expected = tokens_of(whole, 1, 7, 5);
    EXPECT_EQ(apply(op::Rotary{all, 1, false, 0, 7}, backend, {part}).values[0].data,
              expected.data);
    EXPECT_EQ(apply(op::Rotary{all, 1, false, 12}, backend, {part, scalar(7)}).values[0].data,
              expected.data);
    // Documents of 5 and 7 tokens: the second one is turned as if it stood alone.
    Array starts = filled({2, 12}, 0);
    for (std::size_t i = 0; i < 24; ++i) starts.data[i] = i % 12 < 5 ? 0 : 5;
    const Array documents =
        apply(op::Rotary{all, 1, false, 0, 0, true}, backend, {qkv, starts}).values[0];
    for (const std::int64_t sample : {0, 1}) {
      EXPECT_EQ(tokens_of(documents, sample, 5, 7).data,
                apply(op::Rotary{all}, backend, {tokens_of(qkv, sample, 5, 7)}).values[0].data);
      EXPECT_EQ(tokens_of(documents, sample, 0, 5).data, tokens_of(whole, sample, 0, 5).data);
    }
  }
}

TEST(HeadNorm, norms_queries_and_keys_as_a_norm_that_is_not_centred) {
  const HeadNormReads reads({2, 5, 3, 4, 10});
  for (const Backend& backend : exact_and_vector) {
    const Arrays made =
        apply(op::HeadNorm{1e-6}, backend, {reads.qkv, reads.q_gain, reads.k_gain}).values;
    std::size_t norms = 0;
    for (std::int64_t vector = 0; vector < 120; ++vector) {
      const auto begin = reads.qkv.data.begin() + vector * 10,
                 to = made[0].data.begin() + vector * 10;
      if (vector % 4 == 3) {
        EXPECT_TRUE(std::equal(begin, begin + 10, to));
        continue;
      }
      const Array& gain = vector % 4 == 2 ? reads.k_gain : reads.q_gain;
      const Arrays expected = apply(op::LayerNorm{1e-6, false, false, false}, backend,
                                    {{{1, 10}, {begin, begin + 10}}, gain})
                                  .values;
      EXPECT_TRUE(std::equal(to, to + 10, expected[0].data.begin()));
      EXPECT_EQ(made[1].data[norms++], expected[1].data[0]);
    }
    EXPECT_EQ(norms, made[1].data.size());
  }
}

TEST(Gated, multiplies_one_half_with_the_silu_of_the_other) {
  const Array x = uniform({3, 2, 300}, "x", -20, 20);
  for (const Backend& backend : exact_and_vector) {
    const Array y = apply(op::Gated{}, backend, {x}).values[0];
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t f = 0; f < 300; ++f) {
        const double gate = x.data[row * 600 + f], other = x.data[row * 600 + 300 + f];
        EXPECT_NEAR(y.data[row * 300 + f], gate / (1 + std::exp(-gate)) * other, 1e-12);
      }
  }
}

TEST(Gated, is_finite_where_its_gate_is_large) {
  const Array x{{1, 2, 4}, {-3e4, 3e4, -800, 800, 1, 1, 1, 1}};
  for (const Backend& backend : backends_of(op::Gated{})) {
    const Array y = apply(op::Gated{}, backend, {x}).values[0];
    const Array x_grad = apply(op::GatedGradient{}, backend, {x, filled({1, 4}, 1)}).values[0];
    for (const std::size_t i : {0U, 2U}) {
      EXPECT_EQ(std::abs(y.data[i]), 0) << to_string(backend);
      EXPECT_NEAR(x_grad.data[i], 0, 1e-30) << to_string(backend);
      EXPECT_NEAR(x_grad.data[i + 1], 1, 1e-2) << to_string(backend);
    }
    for (const std::size_t i : {1U, 3U})
      EXPECT_NEAR(y.data[i] / x.data[i], 1, 1e-2) << to_string(backend);
  }
}

}  // namespace
}  // namespace fourfold::numerics
