// Rows that stand for a product and what is done to each element of it before it is stored
// (op::parts says which rows): only compile/ makes them, where no reduction stands between. A
// kernel may keep the product in the type of its sums until the end, so these rows have the bits of
// their parts only where rounding to the stored type changes nothing. Letters as in ops.h.
#pragma once

#include "op/ops.h"

namespace fourfold::op {

/// y = op(A) op(B) + bias, as op::Contract and op::AddBias; bias has the dims of op(B)'s columns.
struct ContractBias {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false;
  FOURFOLD_OP_ROW(ContractBias, "contract_bias", a_rows, b_rows, transpose_a, transpose_b);
  std::vector<Part> parts() const;
};

/// sum = op(A) op(B) + bias, as op::ContractBias; y = gelu(sum). The sum is what the gradient
/// reads.
struct ContractBiasGelu {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false;
  FOURFOLD_OP_ROW(ContractBiasGelu, "contract_bias_gelu", a_rows, b_rows, transpose_a, transpose_b);
  std::vector<Part> parts() const;
};

/// The way back into a GELU: x_grad = (op(A) op(B)) dGelu(x), as op::Contract and op::GeluGradient;
/// with `summed_dims` above 0 also bias_grad (+)= the sum of x_grad over its first `summed_dims`
/// dims, which are those of op(A)'s rows.
struct ContractGeluGradient {
  std::int64_t a_rows = 1, b_rows = 1;
  bool transpose_a = false, transpose_b = false;
  std::int64_t summed_dims = 0;
  bool adds_bias_grad = false;
  FOURFOLD_OP_ROW(ContractGeluGradient, "contract_gelu_gradient", a_rows, b_rows, transpose_a,
                  transpose_b, summed_dims, adds_bias_grad);
  std::vector<Part> parts() const;
};

/// FOURFOLD_FUSED_PRODUCT_ROWS(ROW) is ROW(Type, class of its work) for each of the rows above.
#define FOURFOLD_FUSED_PRODUCT_ROWS(ROW) \
  ROW(ContractBias, product)             \
  ROW(ContractBiasGelu, product)         \
  ROW(ContractGeluGradient, product)

}  // namespace fourfold::op
