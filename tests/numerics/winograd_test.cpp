// Winograd's convolutions against the direct sum, within the bound of their own rounding.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "kernels/cpu/winograd.h"
#include "numerics/harness.h"

namespace fourfold::numerics::winograd_test {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The matrices of Lavin, Gray 2016, section 4.3, by absolute value.
const Matrix input = {{4, 0, 5, 0, 1, 0}, {0, 4, 4, 1, 1, 0}, {0, 4, 4, 1, 1, 0},
                      {0, 2, 1, 2, 1, 0}, {0, 2, 1, 2, 1, 0}, {0, 4, 0, 5, 0, 1}};
const Matrix kernel = {{1. / 4, 0, 0},
                       {1. / 6, 1. / 6, 1. / 6},
                       {1. / 6, 1. / 6, 1. / 6},
                       {1. / 24, 1. / 12, 1. / 6},
                       {1. / 24, 1. / 12, 1. / 6},
                       {0, 0, 1}};
const Matrix output = {
    {1, 1, 1, 1, 1, 0}, {0, 1, 1, 2, 2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, 1, 8, 8, 1}};

/// The largest row sum of |a| (|b| 1): by how much the sum of all absolute values that meet in one
/// output grows along one side, where each output and each input of a transform is at most 1.
double growth(const Matrix& to, const Matrix& first, const Matrix& second) {
  double largest = 0;
  for (std::size_t row = 0; row < to.size(); ++row) {
    double sum = 0;
    for (std::size_t e = 0; e < first.size(); ++e) {
      double a = 0, b = 0;
      for (const double value : first[e]) a += value;
      for (const double value : second[e]) b += value;
      sum += to[row][e] * a * b;
    }
    largest = std::max(largest, sum);
  }
  return largest;
}
Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix[0].size(), std::vector<double>(matrix.size()));
  for (std::size_t i = 0; i < matrix.size(); ++i)
    for (std::size_t j = 0; j < matrix[i].size(); ++j) result[j][i] = matrix[i][j];
  return result;
}

struct Sizes {
  std::int64_t samples, height, width, channels, outputs;
  Shape x() const { return {samples, height, width, channels}; }
  Shape weight() const { return {outputs, 3, 3, channels}; }
  Shape y() const { return {samples, height, width, outputs}; }
};

const std::vector<Sizes> all_sizes = {{8, 8, 8, 32, 32},    // whole tiles and panels
                                      {3, 17, 14, 29, 50},  // tiles and panels that are cut off
                                      {2, 16, 20, 64, 33},
                                      {33, 4, 5, 40, 25},
                                      {2, 33, 9, 130, 27}};

/// All of |got - expected| <= 8 eps sqrt(n) growth^2, as in harness.h, n the length of the sum in
/// between; operands are at most 1.
void expect_close(const op::Op& op, const Arrays& reads, const Arrays& updates, double sums,
                  double grown) {
  const Array expected = apply(op, exact, reads, updates).values[0];
  const double bound =
      8 * static_cast<double>(std::numeric_limits<float>::epsilon()) * std::sqrt(sums) * grown;
  for (const int threads : {1, 2, 3}) {
    const Backend backend{"winograd", DType::f32, threads};
    const Array got = apply(op, backend, reads, updates).values[0];
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < got.data.size(); ++i) {
      worst = std::max(worst, std::abs(got.data[i] - expected.data[i]));
      largest = std::max(largest, std::abs(expected.data[i]));
    }
    EXPECT_LE(worst, bound) << op::name(op) << " " << threads << " threads";
    // Far within it: rounding errors differ in sign.
    EXPECT_LE(worst, 1e-4 * largest) << op::name(op) << " " << threads << " threads";
  }
}

TEST(Winograd, is_the_direct_sum_but_for_rounding) {
  for (const Sizes& s : all_sizes) {
    SCOPED_TRACE(format("{} to {}", to_string(s.x()), s.outputs));
    const Array x = uniform(s.x(), "x"), weight = uniform(s.weight(), "weight"),
                y_grad = uniform(s.y(), "y_grad");
    const double forward = growth(output, kernel, input),
                 backward = growth(transposed(kernel), transposed(output), input);
    const auto c = static_cast<double>(s.channels), o = static_cast<double>(s.outputs);
    const double tiles = static_cast<double>(s.samples) *
                         std::ceil(static_cast<double>(s.height) / 4) *
                         std::ceil(static_cast<double>(s.width) / 4);
    expect_close(op::Convolution{1, 1}, {x, weight}, {}, 36 * c, c * forward * forward);
    expect_close(op::ConvolutionGradient{s.height, s.width, 1, 1}, {y_grad, weight}, {}, 36 * o,
                 o * forward * forward);
    expect_close(op::ConvolutionWeightGradient{3, 3, 1, 1}, {x, y_grad}, {}, 36 * tiles,
                 tiles * backward * backward);
    expect_close(op::ConvolutionWeightGradient{3, 3, 1, 1, true}, {x, y_grad},
                 {uniform(s.weight(), "old")}, 36 * tiles, tiles * backward * backward);
  }
}

TEST(Winograd, has_the_same_bits_with_any_number_of_threads) {
  const Sizes s{5, 12, 9, 48, 37};
  const Arrays forward = {uniform(s.x(), "x"), uniform(s.weight(), "weight")},
               backward = {uniform(s.x(), "x"), uniform(s.y(), "y_grad")};
  for (const auto& [op, reads] : {std::pair<op::Op, Arrays>{op::Convolution{1, 1}, forward},
                                  {op::ConvolutionWeightGradient{3, 3, 1, 1}, backward}}) {
    const auto bytes = [&, &row = op, &operands = reads](int threads) {
      return apply(row, {"winograd", DType::f32, threads}, operands).bytes;
    };
    EXPECT_EQ(bytes(1), bytes(2));
    EXPECT_EQ(bytes(1), bytes(3));
  }
}

TEST(Winograd, computes_what_it_is_faster_at_alone) {
  const auto computes = [](const Sizes& s, std::int64_t stride, std::int64_t padding, DType dtype) {
    const op::Convolution row{stride, padding};
    const std::vector<Shape> reads = {s.x(), s.weight()};
    return kernels::cpu::winograd::computes(
        row, std::vector<Shape>{reads[0], reads[1], op::outputs(row, reads)[0]}, dtype);
  };
  const Sizes good{8, 8, 8, 32, 32};
  EXPECT_TRUE(computes(good, 1, 1, DType::f32));
  EXPECT_FALSE(computes(good, 1, 1, DType::f64));
  EXPECT_FALSE(computes(good, 2, 1, DType::f32));
  EXPECT_FALSE(computes(good, 1, 0, DType::f32));
  EXPECT_FALSE(computes({8, 32, 32, 3, 64}, 1, 1, DType::f32)) << "few channels";
  EXPECT_FALSE(computes({2, 4, 4, 64, 64}, 1, 1, DType::f32)) << "few tiles";
}

}  // namespace
}  // namespace fourfold::numerics::winograd_test
