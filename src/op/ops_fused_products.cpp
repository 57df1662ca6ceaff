// Rules of the rows of fused_products.h, in its order. They follow from those of the parts.
#include <type_traits>
#include <utility>

#include "op/rule_helpers.h"
#include "op/table.h"

namespace fourfold::op {
namespace {

template <class Row>
Matmul product(const Row& row) {
  return {.a_rows = row.a_rows,
          .b_rows = row.b_rows,
          .transpose_a = row.transpose_a,
          .transpose_b = row.transpose_b};
}

BiasGradient bias_gradient(const MatmulGeluGradient& row) {
  return {row.summed_dims, row.adds_bias_grad};
}

/// The rule of a product whose contracted dims are not cut: what follows is not linear.
template <class Row>
FactorRule whole_sums(const Row& row, Shapes reads) {
  FactorRule rule = product(row).factors(reads);
  const std::string& out = rule.operands[2];
  for (const char factor : rule.operands[0])
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

template <class Row>
Shape sum_shape(const Row& row, Shapes reads) {
  const Shape sum = product(row).outputs(reads)[0];
  const std::size_t rows = sum.rank() - column_dims(row, reads);
  require(join(sum, rows, sum.rank(), {}, 0, 0) == reads[2],
          std::string(Row::name) + ": bias has the dims of the columns of b");
  return sum;
}

template <class Row>
FactorRule bias_factors(const Row& row, Shapes reads) {
  FactorRule rule = whole_sums(row, reads);
  const std::string out = rule.operands[2];
  rule.operands.insert(rule.operands.begin() + 2, out.substr(out.size() - column_dims(row, reads)));
  return rule;
}

}  // namespace

Operands MatmulBias::operands() const {
  return {{"a"}, {"b"}, {"bias"}, {"y", Role::write}};
}
std::vector<Shape> MatmulBias::outputs(Shapes reads) const {
  return {sum_shape(*this, reads)};
}
FactorRule MatmulBias::factors(Shapes reads) const {
  return bias_factors(*this, reads);
}
double MatmulBias::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands MatmulBiasGelu::operands() const {
  return {{"a"}, {"b"}, {"bias"}, {"sum", Role::write}, {"y", Role::write}};
}
std::vector<Shape> MatmulBiasGelu::outputs(Shapes reads) const {
  return {2, sum_shape(*this, reads)};
}
FactorRule MatmulBiasGelu::factors(Shapes reads) const {
  FactorRule rule = bias_factors(*this, reads);
  rule.operands.push_back(rule.operands[3]);
  return rule;
}
double MatmulBiasGelu::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

Operands MatmulGeluGradient::operands() const {
  Operands list = {{"a"}, {"b"}, {"x"}, {"x_grad", Role::write}};
  if (summed_dims > 0) list.push_back(bias_gradient(*this).operands()[1]);
  return list;
}
std::vector<Shape> MatmulGeluGradient::outputs(Shapes reads) const {
  const Shape grad = product(*this).outputs(reads)[0];
  require(grad == reads[2], "matmul_gelu_gradient: x has the shape of the product");
  if (summed_dims == 0) return {grad};
  require(grad.rank() - column_dims(*this, reads) == static_cast<std::size_t>(summed_dims),
          "matmul_gelu_gradient: sums over the rows of the product");
  return {grad, bias_gradient(*this).outputs(std::vector{grad})[0]};
}
FactorRule MatmulGeluGradient::factors(Shapes reads) const {
  FactorRule rule = whole_sums(*this, reads);
  rule.operands.push_back(rule.operands[2]);
  if (summed_dims > 0)
    rule.operands.push_back(rule.operands[2].substr(static_cast<std::size_t>(summed_dims)));
  return rule;
}
double MatmulGeluGradient::flops(Shapes all) const {
  return flops_of_parts(*this, all);
}

std::vector<Part> parts_of(const MatmulBias& row) {
  return {{product(row), {0, 1, 3}}, {AddBias{}, {3, 2, 3}}};
}

std::vector<Part> parts_of(const MatmulBiasGelu& row) {
  return {{product(row), {0, 1, 3}}, {AddBias{}, {3, 2, 3}}, {Gelu{}, {3, 4}}};
}

std::vector<Part> parts_of(const MatmulGeluGradient& row) {
  std::vector<Part> list = {{product(row), {0, 1, 3}}, {GeluGradient{}, {2, 3, 3}}};
  if (row.summed_dims > 0) list.push_back({bias_gradient(row), {3, 4}});
  return list;
}

std::optional<Matmul> product_of(const Op& op) {
  return std::visit(
      []<class Row>(const Row& row) -> std::optional<Matmul> {
        if constexpr (std::is_same_v<Row, Matmul>)
          return row;
        else if constexpr (requires { row.transpose_a; })
          return product(row);
        else
          return std::nullopt;
      },
      op);
}

}  // namespace fourfold::op
