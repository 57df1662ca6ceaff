// Layer norm that is not centred, whole and in parts. C channels.
#include <gtest/gtest.h>

#include <cmath>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

constexpr double epsilon = 1e-5;
const op::LayerNorm norm{epsilon, false, false, false};
const op::LayerNormGradient norm_gradient{false, false};
const op::LayerNormWeightGradient weight_gradient{false, false, false, false};

struct Forward {
  Array x, gain, y_grad, y, rstd;
  explicit Forward(const Shape& shape)
      : x(uniform(shape, "x", -1, 3)),
        gain(uniform({shape.back()}, "gain")),
        y_grad(uniform(shape, "grad")) {
    const Arrays made = apply(norm, exact, {x, gain}).values;
    y = made[0], rstd = made[1];
  }
};

Arrays own_magnitude(const Case&, const Arrays& outputs) {
  Arrays made = outputs;
  for (Array& array : made)
    for (double& value : array.data) value = std::abs(value);
  return made;
}

/// The gradient rstd (d - n average(d n)) with every term in absolute value.
Arrays gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const Array &x = sample.reads[0], &gain = sample.reads[1], &rstd = sample.reads[2],
              &grad = sample.reads[3];
  const std::size_t channels = gain.data.size();
  Arrays made = outputs;
  for (std::size_t row = 0; row < rstd.data.size(); ++row) {
    const auto scaled = [&](std::size_t c) {
      return std::abs(grad.data[row * channels + c] * gain.data[c]);
    };
    const auto normal = [&](std::size_t c) {
      return std::abs(x.data[row * channels + c]) * rstd.data[row];
    };
    double sum = 0;
    for (std::size_t c = 0; c < channels; ++c) sum += scaled(c) * normal(c);
    for (std::size_t c = 0; c < channels; ++c)
      made[0].data[row * channels + c] =
          rstd.data[row] * (scaled(c) + normal(c) * sum / static_cast<double>(channels));
  }
  return made;
}

Array columns_of(const Array& array, std::int64_t first, std::int64_t count) {
  Shape shape = array.shape;
  const std::int64_t all = shape.back();
  shape[shape.rank() - 1] = count;
  Array made = filled(shape, 0);
  for (std::size_t i = 0; i < made.data.size(); ++i)
    made.data[i] = array.data[i / at(count) * at(all) + at(first) + i % at(count)];
  return made;
}

}  // namespace

std::vector<Case> uncentred_norm_cases() {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 8}, Shape{7, 31, 130}, Shape{5, 1032},
                             Shape{3, 2060}, Shape{2, 8200}}) {
    const Forward f(shape);
    const auto channels = static_cast<double>(shape.back()),
               rows = static_cast<double>(f.rstd.data.size());
    const auto add = [&](const op::Op& op, const Arrays& reads, double reduction, auto magnitude,
                         const Arrays& old = {}) {
      cases.push_back({"not centred", op, reads, old, reduction, magnitude});
    };
    add(norm, {f.x, f.gain}, channels, own_magnitude);
    add(norm_gradient, {f.x, f.gain, f.rstd, f.y_grad}, channels, gradient_magnitude);
    const auto on_absolute = std::function<Arrays(const Case&, const Arrays&)>();
    add(weight_gradient, {f.x, f.rstd, f.y_grad}, rows, on_absolute);
    add(op::with_accumulate(weight_gradient, true), {f.x, f.rstd, f.y_grad}, rows, on_absolute,
        {uniform({shape.back()}, "old")});
    const std::int64_t parts = shape.back() % 2 == 0 ? 2 : 1;
    const Array moments = apply(op::LayerNormMoments{parts, false, false}, exact, {f.x}).values[0];
    add(op::LayerNormMoments{parts, false, false}, {f.x}, channels, own_magnitude);
    add(op::LayerNormApply{epsilon, false, shape.back(), false, false}, {f.x, moments, f.gain},
        static_cast<double>(parts), own_magnitude);
    const Arrays reads = {f.x, f.gain, f.rstd, f.y_grad};
    add(op::LayerNormGradientSums{false, false}, reads, channels, on_absolute);
    Arrays with_sums = reads;
    with_sums.push_back(apply(op::LayerNormGradientSums{false, false}, exact, reads).values[0]);
    add(op::LayerNormGradientApply{shape.back(), false, false}, with_sums, 1, gradient_magnitude);
  }
  return cases;
}

namespace {

const std::vector<Backend> exact_and_vector = {exact, {"vector"}, {"vector", DType::f64, 3}};

TEST(UncentredNorm, divides_by_the_root_of_the_mean_square) {
  const Forward f({4, 70});
  for (const Backend& backend : exact_and_vector) {
    const Arrays made = apply(norm, backend, {f.x, f.gain}).values;
    ASSERT_EQ(made.size(), 2U) << "there is no mean";
    for (std::size_t row = 0; row < 4; ++row) {
      double squares = 0;
      for (std::size_t c = 0; c < 70; ++c)
        squares += f.x.data[row * 70 + c] * f.x.data[row * 70 + c];
      const double root = std::sqrt(squares / 70 + epsilon);
      EXPECT_NEAR(made[1].data[row] * root, 1, 1e-14);
      for (std::size_t c = 0; c < 70; ++c)
        EXPECT_NEAR(made[0].data[row * 70 + c], f.x.data[row * 70 + c] / root * f.gain.data[c],
                    1e-14);
    }
  }
}

TEST(UncentredNorm, has_gradients_that_equal_central_differences) {
  const Forward f({2, 3, 5});
  for (const Backend& backend : exact_and_vector) {
    expect_gradient(norm, {f.x, f.gain}, 0, {f.y_grad},
                    apply(norm_gradient, backend, {f.x, f.gain, f.rstd, f.y_grad}).values[0]);
    expect_gradient(norm, {f.x, f.gain}, 1, {f.y_grad},
                    apply(weight_gradient, backend, {f.x, f.rstd, f.y_grad}).values[0]);
  }
}

TEST(UncentredNorm, of_ranks_that_share_channels_is_that_of_the_whole) {
  constexpr std::int64_t width = 24, ranks = 3, own = width / ranks;
  const Forward f({4, width});
  const Array x_grad = apply(norm_gradient, exact, {f.x, f.gain, f.rstd, f.y_grad}).values[0];
  for (const Backend& backend : exact_and_vector) {
    Array moments = filled({2 * ranks, 4, 1}, 0), sums = filled({4, 1}, 0);
    const auto read = [&](std::int64_t rank) {
      return Arrays{columns_of(f.x, rank * own, own), columns_of(f.gain, rank * own, own), f.rstd,
                    columns_of(f.y_grad, rank * own, own)};
    };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Array part =
          apply(op::LayerNormMoments{2, false, false}, backend, {read(rank)[0]}).values[0];
      std::copy(part.data.begin(), part.data.end(), moments.data.begin() + rank * 8);
      const Array term =
          apply(op::LayerNormGradientSums{false, false}, backend, read(rank)).values[0];
      for (std::size_t i = 0; i < 4; ++i) sums.data[i] += term.data[i];
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Arrays reads = read(rank);
      const Arrays made = apply(op::LayerNormApply{epsilon, false, width, false, false}, backend,
                                {reads[0], moments, reads[1]})
                              .values;
      const Array y = columns_of(f.y, rank * own, own), grad = columns_of(x_grad, rank * own, own);
      reads.push_back(sums);
      const Array got =
          apply(op::LayerNormGradientApply{width, false, false}, backend, reads).values[0];
      for (std::size_t i = 0; i < y.data.size(); ++i) {
        EXPECT_NEAR(made[0].data[i], y.data[i], 1e-14);
        EXPECT_NEAR(got.data[i], grad.data[i], 1e-13);
      }
      for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(made[1].data[i], f.rstd.data[i], 1e-14);
    }
  }
}

}  // namespace
}  // namespace fourfold::numerics
