// A contract of tensors seen as products of matrices: m, n, k and where elements lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "op/table.h"

namespace fourfold::kernels {

/// out (m, n) = op(a) (m, k) times op(b) (k, n). a and b are dense as stored; element (row, inner)
/// of op(a) lies at row * a_row_stride + inner * a_inner_stride, element (inner, column) of op(b)
/// likewise. There are `count` such products, each dense after the one before it.
struct ContractSizes {
  std::int64_t m, n, k;
  std::int64_t a_row_stride, a_inner_stride;
  std::int64_t b_inner_stride, b_column_stride;
  std::int64_t count;

  /// True if rows of op(a) lie beside each other, and their elements do not.
  bool is_a_transposed() const { return a_row_stride == 1 && a_inner_stride != 1; }
  /// Elements between rows of a and of b as they are stored: the leading dimension of a BLAS.
  std::int64_t a_stride() const { return std::max(a_row_stride, a_inner_stride); }
  std::int64_t b_stride() const { return std::max(b_inner_stride, b_column_stride); }
  /// multiply(a, b, out) for the operands of each product.
  template <class A, class B, class Out, class Multiply>
  void for_each_product(A* a, B* b, Out* out, const Multiply& multiply) const {
    for (std::int64_t i = 0; i < count; ++i)
      multiply(a + i * m * k, b + i * k * n, out + i * m * n);
  }
};

inline ContractSizes contract_sizes(const op::Contract& op, op::Shapes shapes) {
  const op::ProductSizes of = op::product_sizes(op, shapes);
  ContractSizes sizes{};
  sizes.count = of.count, sizes.m = of.m, sizes.n = of.n, sizes.k = of.k;
  sizes.a_row_stride = op.transpose_a ? 1 : sizes.k;
  sizes.a_inner_stride = op.transpose_a ? sizes.m : 1;
  sizes.b_inner_stride = op.transpose_b ? 1 : sizes.n;
  sizes.b_column_stride = op.transpose_b ? sizes.k : 1;
  return sizes;
}

}  // namespace fourfold::kernels
