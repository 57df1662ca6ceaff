// Rules of the rows of fused_products.h, in its order. They follow from those of the parts.
#include <type_traits>
#include <utility>

#include "op/examples.h"
#include "op/rule_helpers.h"

namespace fourfold::op {
namespace {

template <class Row>
Contract product(const Row& row) {
  return {.a_rows = row.a_rows,
          .b_rows = row.b_rows,
          .transpose_a = row.transpose_a,
          .transpose_b = row.transpose_b};
}

BiasGradient bias_gradient(const ContractGeluGradient& row) {
  return {row.summed_dims, row.adds_bias_grad};
}

/// The rule of a product whose contracted dims are not cut: what follows is not linear.
template <class Row>
FactorRule whole_sums(const Row& row, Shapes reads) {
  FactorRule rule = product(row).factors(reads);
  const std::string out = rule.operands[2].letters();
  for (const char factor : rule.operands[0].letters())
    if (out.find(factor) == std::string::npos) rule.whole += factor;
  rule.linear = Linear::no;
  return rule;
}

/// Dims of the columns of op(B): the last ones of the product.
template <class Row>
std::size_t column_dims(const Row& row, Shapes reads) {
  const auto b_rows = static_cast<std::size_t>(row.b_rows);
  return row.transpose_b ? b_rows : reads[1].rank() - b_rows;
}

/// The sum of product and bias, `copies` times.
template <class Row>
Outputs sums(const Row& row, Shapes reads, std::size_t copies) {
  const Outputs made = product(row).outputs(reads);
  if (made.mistake() != nullptr) return made;
  const Shape& sum = made.shapes()[0];
  const std::size_t rows = sum.rank() - column_dims(row, reads);
  if (join(sum, rows, sum.rank(), {}, 0, 0) != reads[2])
    return Mistake{std::string(Row::name) + ": bias has the dims of the columns of b"};
  return std::vector<Shape>(copies, sum);
}

template <class Row>
FactorRule bias_factors(const Row& row, Shapes reads) {
  FactorRule rule = whole_sums(row, reads);
  const std::string out = rule.operands[2].letters();
  rule.operands.insert(rule.operands.begin() + 2,
                       OperandFactors(out.substr(out.size() - column_dims(row, reads))));
  return rule;
}

}  // namespace

Operands ContractBias::operands() const {
  return {{"a"}, {"b"}, {"bias"}, {"y", Role::write}};
}
Outputs ContractBias::outputs(Shapes reads) const {
  return sums(*this, reads, 1);
}
FactorRule ContractBias::factors(Shapes reads) const {
  return bias_factors(*this, reads);
}
double ContractBias::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands ContractBiasGelu::operands() const {
  return {{"a"}, {"b"}, {"bias"}, {"sum", Role::write}, {"y", Role::write}};
}
Outputs ContractBiasGelu::outputs(Shapes reads) const {
  return sums(*this, reads, 2);
}
FactorRule ContractBiasGelu::factors(Shapes reads) const {
  FactorRule rule = bias_factors(*this, reads);
  rule.operands.push_back(rule.operands[3]);
  return rule;
}
double ContractBiasGelu::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands ContractGeluGradient::operands() const {
  Operands list = {{"a"}, {"b"}, {"x"}, {"x_grad", Role::write}};
  if (summed_dims > 0) list.push_back(bias_gradient(*this).operands()[1]);
  return list;
}
Outputs ContractGeluGradient::outputs(Shapes reads) const {
  const Outputs made = product(*this).outputs(reads);
  if (made.mistake() != nullptr) return made;
  const Shape& grad = made.shapes()[0];
  if (grad != reads[2]) return Mistake{"contract_gelu_gradient: x has the shape of the product"};
  if (summed_dims == 0) return {grad};
  const std::size_t rows = grad.rank() - column_dims(*this, reads);
  if (rows != static_cast<std::size_t>(summed_dims))
    return Mistake{"contract_gelu_gradient: sums over the rows of the product"};
  return {grad, join(grad, rows, grad.rank(), {}, 0, 0)};
}
FactorRule ContractGeluGradient::factors(Shapes reads) const {
  FactorRule rule = whole_sums(*this, reads);
  rule.operands.push_back(OperandFactors(rule.operands[2]));
  if (summed_dims > 0)
    rule.operands.emplace_back(
        rule.operands[2].letters().substr(static_cast<std::size_t>(summed_dims)));
  return rule;
}
double ContractGeluGradient::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

std::vector<Part> ContractBias::parts() const {
  return {{product(*this), {0, 1, 3}}, {AddBias{}, {3, 2, 3}}};
}
std::vector<Example> examples_of(const ContractBias&) {
  return {{ContractBias{2, 1, false, true}, {usual, {5, 4}, {5}}}};
}

std::vector<Part> ContractBiasGelu::parts() const {
  return {{product(*this), {0, 1, 3}}, {AddBias{}, {3, 2, 3}}, {Gelu{}, {3, 4}}};
}
std::vector<Example> examples_of(const ContractBiasGelu&) {
  // Far below zero a GELU is a difference of nearly equal numbers.
  return {{ContractBiasGelu{2, 2}, {{2, 3, 4, 5}, {4, 5, 6, 7}, {6, 7}}, {small}}};
}

std::vector<Part> ContractGeluGradient::parts() const {
  std::vector<Part> list = {{product(*this), {0, 1, 3}}, {GeluGradient{}, {2, 3, 3}}};
  if (summed_dims > 0) list.push_back({bias_gradient(*this), {3, 4}});
  return list;
}
std::vector<Example> examples_of(const ContractGeluGradient&) {
  return {{ContractGeluGradient{2, 1, false, true, 2, true}, {usual, {5, 4}, {2, 3, 5}}}};
}

std::optional<Contract> product_of(const Op& op) {
  return std::visit(
      []<class Row>(const Row& row) -> std::optional<Contract> {
        if constexpr (std::is_same_v<Row, Contract>)
          return row;
        else if constexpr (requires { row.transpose_a; })
          return product(row);
        else
          return std::nullopt;
      },
      op);
}

}  // namespace fourfold::op
