// A matmul of tensors seen as a product of matrices: m, n, k and where elements lie.
#pragma once

#include <cstdint>

#include "op/ops.h"

namespace fourfold::kernels {

/// out (m, n) = op(a) (m, k) times op(b) (k, n). a and b are dense as stored; element (row, inner)
/// of op(a) lies at row * a_row_stride + inner * a_inner_stride, element (inner, column) of op(b)
/// likewise.
struct MatmulSizes {
  std::int64_t m, n, k;
  std::int64_t a_row_stride, a_inner_stride;
  std::int64_t b_inner_stride, b_column_stride;
};

inline MatmulSizes matmul_sizes(const op::Matmul& op, op::Shapes shapes) {
  const auto a_split = static_cast<std::size_t>(op.a_rows);
  const auto b_split = static_cast<std::size_t>(op.b_rows);
  const std::int64_t a_rows = shapes[0].elements(0, a_split);
  const std::int64_t a_columns = shapes[0].elements(a_split, shapes[0].rank());
  const std::int64_t b_rows = shapes[1].elements(0, b_split);
  const std::int64_t b_columns = shapes[1].elements(b_split, shapes[1].rank());
  MatmulSizes sizes{};
  sizes.m = op.transpose_a ? a_columns : a_rows;
  sizes.k = op.transpose_a ? a_rows : a_columns;
  sizes.n = op.transpose_b ? b_rows : b_columns;
  sizes.a_row_stride = op.transpose_a ? 1 : a_columns;
  sizes.a_inner_stride = op.transpose_a ? a_columns : 1;
  sizes.b_inner_stride = op.transpose_b ? 1 : b_columns;
  sizes.b_column_stride = op.transpose_b ? b_columns : 1;
  return sizes;
}

}  // namespace fourfold::kernels
