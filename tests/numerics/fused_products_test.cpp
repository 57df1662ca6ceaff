// Products with what follows them as one chain. Sizes with and without the alignment that
// libraries ask for.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "numerics/harness.h"
#include "support/chains.h"

namespace fourfold::numerics {
namespace {

Arrays absolute(Arrays arrays) {
  for (Array& array : arrays)
    for (double& value : array.data) value = std::abs(value);
  return arrays;
}

Array absolute_product(const Case& sample) {
  const Arrays reads = absolute({sample.reads[0], sample.reads[1]});
  return apply(*op::product_of(sample.op), exact, reads).values[0];
}

/// A GELU's slope is at most 1.13, so the errors of the sum pass on.
Arrays product_bias_gelu_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  magnitude[0] = absolute_product(sample);
  const std::vector<double>& bias = sample.reads[2].data;
  for (std::size_t i = 0; i < magnitude[0].data.size(); ++i) {
    magnitude[0].data[i] += std::abs(bias[i % bias.size()]);
    magnitude[1].data[i] = 2 * magnitude[0].data[i];
  }
  return magnitude;
}

/// The product's, times the terms of op::GeluGradient: 1 + |x| (1 - tanh^2) u' (1 + |u|). The bias
/// adds them up.
Arrays product_gelu_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  magnitude[0] = absolute_product(sample);
  for (std::size_t i = 0; i < magnitude[0].data.size(); ++i) {
    const double x = sample.reads[2].data[i];
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    const double slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    const double flatness = 1 - std::tanh(u) * std::tanh(u);
    magnitude[0].data[i] *= 1 + std::abs(x) * flatness * slope * (1 + std::abs(u));
  }
  if (outputs.size() == 1) return magnitude;
  const std::size_t columns = outputs[1].data.size();
  for (std::size_t column = 0; column < columns; ++column)
    magnitude[1].data[column] =
        sample.updates.empty() ? 0 : std::abs(sample.updates[0].data[column]);
  for (std::size_t i = 0; i < magnitude[0].data.size(); ++i)
    magnitude[1].data[i % columns] += magnitude[0].data[i];
  return magnitude;
}

struct FusedSizes {
  Shape rows;
  Shape inner, columns;
};

void add_cases(std::vector<Case>& cases, const FusedSizes& sizes, bool transpose_a,
               bool transpose_b) {
  const auto joined = [](const Shape& first, const Shape& second) {
    Shape shape = first;
    for (const std::int64_t size : second) shape.push_back(size);
    return shape;
  };
  const Shape a_first = transpose_a ? sizes.inner : sizes.rows,
              b_first = transpose_b ? sizes.columns : sizes.inner;
  const auto a_rows = static_cast<std::int64_t>(a_first.rank()),
             b_rows = static_cast<std::int64_t>(b_first.rank()),
             rows = static_cast<std::int64_t>(sizes.rows.rank());
  const Array a = uniform(joined(a_first, transpose_a ? sizes.rows : sizes.inner), "a"),
              b = uniform(joined(b_first, transpose_b ? sizes.inner : sizes.columns), "b"),
              bias = uniform(sizes.columns, "bias"),
              x = uniform(joined(sizes.rows, sizes.columns), "x", -6, 6);
  const auto depth = static_cast<double>(sizes.inner.elements()),
             longest = depth + static_cast<double>(sizes.rows.elements());
  const std::string name = format("{} {} {} {}{}", sizes.rows.elements(), sizes.columns.elements(),
                                  depth, transpose_a ? "t" : "n", transpose_b ? "t" : "n");
  const op::Contract product{a_rows, b_rows, transpose_a, transpose_b};
  cases.push_back({name, op::product_and_bias(product), {a, b, bias}, {}, depth});
  cases.push_back(
      {name, op::product_bias_gelu(product), {a, b, bias}, {}, depth, product_bias_gelu_magnitude});
  const auto gradient = [&](const std::optional<op::BiasGradient>& of_bias) {
    return op::product_gelu_gradient(product, of_bias);
  };
  cases.push_back({name, gradient({}), {a, b, x}, {}, depth, product_gelu_gradient_magnitude});
  cases.push_back({name + " bias",
                   gradient(op::BiasGradient{rows}),
                   {a, b, x},
                   {},
                   longest,
                   product_gelu_gradient_magnitude});
  cases.push_back({name + " adds bias",
                   gradient(op::BiasGradient{rows, true}),
                   {a, b, x},
                   {uniform(sizes.columns, "old")},
                   longest,
                   product_gelu_gradient_magnitude});
}

/// A convolution and the bias of its channels.
void add_convolution(std::vector<Case>& cases, const Shape& x, const Shape& weight,
                     const op::Convolution& row) {
  cases.push_back({format("{} {}", to_string(x), to_string(weight)),
                   op::chain_of({{row, {0, 1, 3}}, {op::AddBias{}, {3, 2, 3}}}),
                   {uniform(x, "x"), uniform(weight, "weight"), uniform({weight[0]}, "bias")},
                   {},
                   static_cast<double>(weight.elements(1, 4))});
}

}  // namespace

std::vector<Case> fused_product_cases() {
  std::vector<Case> cases;
  add_cases(cases, {{1}, {1}, {1}}, false, false);
  add_cases(cases, {{7}, {5}, {3}}, true, true);
  add_cases(cases, {{13}, {300}, {33}}, false, true);
  for (const bool transpose_b : {false, true})
    add_cases(cases, {{3, 25}, {40}, {8, 9}}, false, transpose_b);
  add_cases(cases, {{2, 16}, {4, 16}, {64}}, false, false);
  cases.push_back({"bias of the last dim alone",
                   op::product_and_bias(op::Contract{}),
                   {uniform({3, 4}, "a"), uniform({4, 5, 9}, "b"), uniform({9}, "bias")},
                   {},
                   4});
  add_convolution(cases, {1, 1, 1, 1}, {1, 1, 1, 1}, {});
  add_convolution(cases, {2, 5, 7, 3}, {5, 3, 3, 3}, {.stride = 2, .padding = 1});
  add_convolution(cases, {3, 4, 5, 16}, {72, 3, 3, 16}, {.stride = 1, .padding = 1});
  add_convolution(cases, {2, 3, 11, 24}, {65, 1, 1, 24}, {});
  return cases;
}

}  // namespace fourfold::numerics
