// Rows that compute each element of one tensor from the elements at the same place of what they
// read: all that op/ must know of them follows from what each states here. What one element is,
// kernels/elementwise.h says.
//
// To add one: a struct and a line in the list at the end of this file, its element in
// kernels/elementwise.h, its gradient in graph/gradients.cpp. Its shapes, factors, text, loops on
// every backend and tests follow.
#pragma once

#include <cstddef>
#include <span>

#include "op/ops.h"

namespace fourfold::op {

/// What an elementwise row states of itself.
template <std::size_t reads>
struct Elementwise {
  /// The reads, then the output.
  Operand operands[reads + 1];
  double flops = 1;  // of each element
  FactorRule::Linear linear = FactorRule::Linear::no;
  /// As op::takes_any_element says; integers are computed mod 2^64.
  bool takes_any_element = false;
  /// Where its function is smooth, so that tests can try it.
  Range domain = {-2, 2};

  static constexpr std::size_t num_reads = reads;
};

/// With `wide` all operands of the computation's type have that of its sums.
Operands elementwise_operands(std::span<const Operand> list, bool wide);
Outputs elementwise_outputs(std::string_view name, Shapes reads);
FactorRule elementwise_factors(FactorRule::Linear linear, Shapes reads);
double elementwise_flops(double flops_of_element, Shapes all);

/// True if the row has the attribute, and it is set.
template <class Row>
constexpr bool is_wide(const Row& row) {
  if constexpr (requires { row.wide; })
    return row.wide;
  else
    return false;
}

#define FOURFOLD_ELEMENTWISE_ROW(Type, text, ...)               \
  FOURFOLD_ATTRIBUTES(__VA_ARGS__)                              \
  static constexpr std::string_view name = text;                \
  Operands operands() const {                                   \
    return elementwise_operands(rule.operands, is_wide(*this)); \
  }                                                             \
  Outputs outputs(Shapes reads) const {                         \
    return elementwise_outputs(name, reads);                    \
  }                                                             \
  FactorRule factors(Shapes reads) const {                      \
    return elementwise_factors(rule.linear, reads);             \
  }                                                             \
  double flops(Shapes all) const {                              \
    return elementwise_flops(rule.flops, all);                  \
  }                                                             \
  void residue_form(const Residues&, ResidueTensors) const;     \
  bool operator==(const Type&) const = default

/// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); Hendrycks, Gimpel 2016 (arXiv:1606.08415), as
/// GPT-2 uses it.
struct Gelu {
  static constexpr Elementwise<1> rule{.operands = {{"x"}, {"y", Role::write, Element::compute, 0}},
                                       .flops = 12};
  FOURFOLD_ELEMENTWISE_ROW(Gelu, "gelu");
};

/// x_grad = y_grad * dGelu(x).
struct GeluGradient {
  static constexpr Elementwise<2> rule{
      .operands = {{"x"}, {"y_grad"}, {"x_grad", Role::write, Element::compute, 1}}, .flops = 20};
  FOURFOLD_ELEMENTWISE_ROW(GeluGradient, "gelu_gradient");
};

/// y = x / (1 + exp(-x)); Elfwing, Uchibe, Doya 2018 (arXiv:1702.03118), eq 4, there SiLU.
struct Silu {
  static constexpr Elementwise<1> rule{.operands = {{"x"}, {"y", Role::write, Element::compute, 0}},
                                       .flops = 4};
  FOURFOLD_ELEMENTWISE_ROW(Silu, "silu");
};

/// x_grad = y_grad * dSilu(x).
struct SiluGradient {
  static constexpr Elementwise<2> rule{
      .operands = {{"x"}, {"y_grad"}, {"x_grad", Role::write, Element::compute, 1}}, .flops = 8};
  FOURFOLD_ELEMENTWISE_ROW(SiluGradient, "silu_gradient");
};

/// y = max(x, 0); NaN stays NaN.
struct Relu {
  static constexpr Elementwise<1> rule{.operands = {{"x"}, {"y", Role::write, Element::compute, 0}},
                                       .domain = {0.25, 2}};
  FOURFOLD_ELEMENTWISE_ROW(Relu, "relu");
};

/// x_grad = y_grad where y > 0, else 0; NaN where y is NaN. It reads y, so that x need not be kept.
struct ReluGradient {
  static constexpr Elementwise<2> rule{
      .operands = {{"y"}, {"y_grad"}, {"x_grad", Role::write, Element::compute, 1}},
      .domain = {0.25, 2}};
  FOURFOLD_ELEMENTWISE_ROW(ReluGradient, "relu_gradient");
};

/// y = x rounded to the type of the computation, to nearest even; x has the type of its sums: the
/// bf16 copy of float32 weights, or of a gradient that flows from a wide sum into a branch of it.
/// Where both are one type it is a copy, and compile/ makes none of weights.
struct Cast {
  static constexpr Elementwise<1> rule{
      .operands = {{"x", Role::read, Element::accumulate}, {"y", Role::write}}, .flops = 0};
  FOURFOLD_ELEMENTWISE_ROW(Cast, "cast");
};

/// y = x: from the type of the computation to that of its sums. Every value has one there.
struct Widen {
  static constexpr Elementwise<1> rule{.operands = {{"x"}, {"y", Role::write, Element::accumulate}},
                                       .flops = 0,
                                       .linear = FactorRule::Linear::all};
  FOURFOLD_ELEMENTWISE_ROW(Widen, "widen");
};

/// y = a + b. The computation may also be in i64 or u64: counters and digests. All three may be
/// `wide`.
struct Add {
  bool wide = false;
  static constexpr Elementwise<2> rule{
      .operands = {{"a"}, {"b"}, {"y", Role::write, Element::compute, 0}},
      .linear = FactorRule::Linear::all,
      .takes_any_element = true};
  FOURFOLD_ELEMENTWISE_ROW(Add, "add", wide);
};

/// y = a + b of which b alone is rounded: a and y have the type of sums. A residual stream in
/// float32 and a branch in bf16; a sum of gradients and what a collective carried in bf16.
struct AddRounded {
  static constexpr Elementwise<2> rule{.operands = {{"a", Role::read, Element::accumulate},
                                                    {"b"},
                                                    {"y", Role::write, Element::accumulate, 0}},
                                       .linear = FactorRule::Linear::all};
  FOURFOLD_ELEMENTWISE_ROW(AddRounded, "add_rounded");
};

/// FOURFOLD_ELEMENTWISE_ROWS(ROW) is ROW(Type, elementwise) for each of the rows above.
#define FOURFOLD_ELEMENTWISE_ROWS(ROW) \
  ROW(Gelu, elementwise)               \
  ROW(GeluGradient, elementwise)       \
  ROW(Silu, elementwise)               \
  ROW(SiluGradient, elementwise)       \
  ROW(Relu, elementwise)               \
  ROW(ReluGradient, elementwise)       \
  ROW(Cast, elementwise)               \
  ROW(Widen, elementwise)              \
  ROW(Add, elementwise)                \
  ROW(AddRounded, elementwise)

}  // namespace fourfold::op
