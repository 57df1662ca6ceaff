// Rows that stand for a product and what is done to each element of it before it is stored
// (op::parts says which rows): only compile/ makes them, where no reduction stands between. A
// kernel may keep the product in the type of its sums until the end, so these rows have the bits of
// their parts only where rounding to the stored type changes nothing. Letters as in ops.h.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// y = op(A) op(B) + bias, as op::Matmul and op::AddBias; bias has the dims of op(B)'s columns.
struct MatmulBias {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("a_rows", self.a_rows);
    visit("b_rows", self.b_rows);
    visit("transpose_a", self.transpose_a);
    visit("transpose_b", self.transpose_b);
  }
  FOURFOLD_OP_ROW(MatmulBias, "matmul_bias");
};

/// sum = op(A) op(B) + bias, as op::MatmulBias; y = gelu(sum). The sum is what the gradient reads.
struct MatmulBiasGelu {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    MatmulBias::fields(self, visit);
  }
  FOURFOLD_OP_ROW(MatmulBiasGelu, "matmul_bias_gelu");
};

/// The way back into a GELU: x_grad = (op(A) op(B)) dGelu(x), as op::Matmul and op::GeluGradient;
/// with `summed_dims` above 0 also bias_grad (+)= the sum of x_grad over its first `summed_dims`
/// dims, which are those of op(A)'s rows.
struct MatmulGeluGradient {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false;
  std::int64_t summed_dims = 0;
  bool adds_bias_grad = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    MatmulBias::fields(self, visit);
    visit("summed_dims", self.summed_dims);
    visit("adds_bias_grad", self.adds_bias_grad);
  }
  FOURFOLD_OP_ROW(MatmulGeluGradient, "matmul_gelu_gradient");
};

}  // namespace fourfold::op
