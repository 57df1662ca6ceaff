// Bias, GELU, rectifier, cast, sum and selection of a position.
#include <gtest/gtest.h>

#include <cmath>

#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

/// |x|: the factor (1 + tanh) / 2 is at most 1 and its own error a few eps (argument error times
/// tanh' stays below 1).
Arrays gelu_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i)
    magnitude[0].data[i] = std::abs(sample.reads[0].data[i]);
  return magnitude;
}

/// |y_grad| (1 + |x| (1 - tanh^2) u' (1 + |u|)): the last factor is the condition of exp(-2 u).
Arrays gelu_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    const double x = sample.reads[0].data[i];
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    const double slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    const double flatness = 1 - std::tanh(u) * std::tanh(u);
    magnitude[0].data[i] = std::abs(sample.reads[1].data[i]) *
                           (1 + std::abs(x) * flatness * slope * (1 + std::abs(u)));
  }
  return magnitude;
}

}  // namespace

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases;
  for (const auto& [batch, time, channels] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {5, 53, 67}}) {
    const Shape shape{batch, time, channels};
    const Array x = uniform(shape, "x"), grad = uniform(shape, "grad"),
                wide = uniform(shape, "wide", -12, 12);
    cases.push_back({"last dim", op::AddBias{}, {x, uniform({channels}, "bias")}});
    cases.push_back({"last two dims", op::AddBias{}, {x, uniform({time, channels}, "bias")}});
    for (const std::int64_t summed : {0, 1, 2, 3}) {
      Shape kept;
      for (std::size_t dim = static_cast<std::size_t>(summed); dim < 3; ++dim)
        kept.push_back(shape[dim]);
      const auto rows = static_cast<double>(shape.elements(0, static_cast<std::size_t>(summed)));
      cases.push_back({"overwriting", op::BiasGradient{summed, false}, {grad}, {}, rows});
      cases.push_back(
          {"adding", op::BiasGradient{summed, true}, {grad}, {uniform(kept, "old")}, rows});
    }
    cases.push_back({"narrow", op::Gelu{}, {x}, {}, 1, gelu_magnitude});
    cases.push_back({"wide", op::Gelu{}, {wide}, {}, 1, gelu_magnitude});
    cases.push_back({"narrow", op::GeluGradient{}, {x, grad}, {}, 1, gelu_gradient_magnitude});
    cases.push_back({"wide", op::GeluGradient{}, {wide, grad}, {}, 1, gelu_gradient_magnitude});
    cases.push_back({"both signs", op::Relu{}, {x}, {}, 1, own_size});
    cases.push_back({"both signs", op::ReluGradient{}, {x, grad}, {}, 1, own_size});
    cases.push_back({"of weights", op::Cast{}, {wide}});
    const Array wider = uniform({batch * time, channels, 3}, "wider", -12, 12);
    cases.push_back({"of many weights", op::CastList{3}, {wide, x, wider}});
    cases.push_back({"of gradients", op::Widen{}, {wide}});
    cases.push_back({"sum", op::Add{}, {x, grad}});
    cases.push_back({"last", op::TakePosition{}, {x, scalar(static_cast<double>(time - 1))}});
    cases.push_back({"first", op::TakePosition{}, {x, scalar(0)}});
  }
  return cases;
}

namespace {

TEST(AddBiasGradient, equals_central_differences) {
  const Array x = uniform({2, 3, 4}, "x"), bias = uniform({3, 4}, "bias"),
              weight = uniform({2, 3, 4}, "weight");
  expect_gradient(op::AddBias{}, {x, bias}, 0, {weight}, weight);
  expect_gradient(op::AddBias{}, {x, bias}, 1, {weight},
                  apply(op::BiasGradient{1, false}, {"vector"}, {weight}).values[0]);
}

TEST(GeluGradient, equals_central_differences) {
  const Array x = uniform({40}, "x", -4, 4), weight = uniform({40}, "weight");
  for (const Backend& backend : {exact, Backend{"vector"}})
    expect_gradient(op::Gelu{}, {x}, 0, {weight},
                    apply(op::GeluGradient{}, backend, {x, weight}).values[0]);
}

TEST(Relu, is_zero_below_zero_and_does_not_hide_a_nan) {
  const Array x{{5}, {-3, 0, 3, NAN, -INFINITY}}, grad = filled({5}, 2);
  for (const Backend& backend : backends_of(op::Relu{})) {
    SCOPED_TRACE(to_string(backend));
    const Array y = apply(op::Relu{}, backend, {x}).values[0];
    EXPECT_EQ(y.data[0], 0);
    EXPECT_EQ(y.data[1], 0);
    EXPECT_EQ(y.data[2], 3);
    EXPECT_TRUE(std::isnan(y.data[3]));
    EXPECT_EQ(y.data[4], 0);
    const Array x_grad = apply(op::ReluGradient{}, backend, {y, grad}).values[0];
    EXPECT_EQ(x_grad.data[0], 0);
    EXPECT_EQ(x_grad.data[1], 0);
    EXPECT_EQ(x_grad.data[2], 2);
    EXPECT_TRUE(std::isnan(x_grad.data[3]));
    EXPECT_EQ(x_grad.data[4], 0);
  }
}

TEST(AddGradient, equals_central_differences) {
  const Array a = uniform({7}, "a"), b = uniform({7}, "b"), weight = uniform({7}, "weight");
  expect_gradient(op::Add{}, {a, b}, 0, {weight}, weight);
  expect_gradient(op::Add{}, {a, b}, 1, {weight}, weight);
}

TEST(Cast, rounds_to_nearest_even_and_keeps_what_is_not_finite) {
  // Between 1 and 1 + 2^-7 the middle becomes even; above it, up; beyond the largest, infinite.
  const Array x{{7},
                {1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, -0.0, 3.4e38, INFINITY, NAN}};
  Array often{{7 * 11}, {}};  // whole vectors and what is left of one
  for (int i = 0; i < 11; ++i) often.data.insert(often.data.end(), x.data.begin(), x.data.end());
  for (const std::string implementation : {"reference", "vector"}) {
    const std::vector<double> all =
        apply(op::Cast{}, {implementation, DType::bf16, 1}, {often}).values[0].data;
    for (auto y = all.begin(); y != all.end(); y += 7) {
      EXPECT_EQ(y[0], 1);
      EXPECT_EQ(y[1], 1 + 0x1p-6);
      EXPECT_EQ(y[2], 1 + 0x1p-7);
      EXPECT_TRUE(y[3] == 0 && std::signbit(y[3]));
      EXPECT_EQ(y[4], INFINITY);
      EXPECT_EQ(y[5], INFINITY);
      EXPECT_TRUE(std::isnan(y[6]));
    }
  }
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::string implementation : {"reference", "vector"})
      EXPECT_EQ(
          apply(op::Cast{}, {implementation, dtype, 2}, {filled({3}, 0x1.8p-3)}).values[0].data,
          filled({3}, 0x1.8p-3).data);
}

TEST(CastList, gives_the_bits_of_its_parts) {
  // Tensors of no block, of one, and of several blocks and a part.
  const Arrays weights = {uniform({0}, "none"), uniform({3}, "few"), uniform({41, 1001}, "many"),
                          uniform({8192}, "whole")};
  for (const Backend& backend : {Backend{"reference", DType::bf16, 1}, Backend{"vector"},
                                 Backend{"vector", DType::bf16, 2}}) {
    const Result together = apply(op::CastList{4}, backend, weights);
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_EQ(apply(op::Cast{}, backend, {weights[i]}).bytes[0], together.bytes[i]) << i;
  }
}

TEST(Add, also_adds_counters_and_digests) {
  const Array a{{3}, {1, -5, 1e15}}, b{{3}, {41, 3, 1}};
  for (const std::string implementation : {"reference", "vector"}) {
    EXPECT_EQ(apply(op::Add{}, {implementation, DType::i64, 2}, {a, b}).values[0].data,
              (std::vector<double>{42, -2, 1e15 + 1}));
    EXPECT_EQ(apply(op::Add{}, {implementation, DType::f64, 1}, {scalar(0.1), scalar(0.2)})
                  .values[0]
                  .data[0],
              0.1 + 0.2);
    // Mod 2^64: 3 * 2^62 + 2^63 = 2^62.
    EXPECT_EQ(
        apply(op::Add{}, {implementation, DType::u64, 1}, {scalar(3 * 0x1p62), scalar(0x1p63)})
            .values[0]
            .data[0],
        0x1p62);
  }
}

TEST(Gelu, extremes_neither_overflow_nor_hide_a_nan) {
  const Array x{{4}, {-200, 200, 0, NAN}};
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Backend backend{"vector", dtype};
    const std::vector<double> y = apply(op::Gelu{}, backend, {x}).values[0].data;
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], 200);
    EXPECT_EQ(y[2], 0);
    EXPECT_TRUE(std::isnan(y[3]));
    const std::vector<double> g =
        apply(op::GeluGradient{}, backend, {x, filled({4}, 1)}).values[0].data;
    EXPECT_EQ(g[0], 0);
    EXPECT_EQ(g[1], 1);
    EXPECT_EQ(g[2], 0.5);
    EXPECT_TRUE(std::isnan(g[3]));
  }
}

}  // namespace
}  // namespace fourfold::numerics
