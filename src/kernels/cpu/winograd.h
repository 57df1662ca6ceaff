// Convolutions of 3 x 3 with stride 1 and padding 1 by Winograd's minimal filtering F(4x4, 3x3): a
// quarter of the products of the direct sum (Lavin, Gray 2016, arXiv:1509.09308).
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::winograd {

/// True for a convolution of 3 x 3, or a gradient of one, in f32 whose pictures have tiles and
/// channels enough for it to be faster than the direct sum.
bool computes(const op::Op& op, op::Shapes all, DType dtype);

/// Rounding: each output is a sum of as many products as the direct one has, whose factors are sums
/// of up to 36 numbers with factors up to 5 (inputs), and weights of up to 1; largest difference
/// seen: seven times that of the direct sum (the paper's section 5.3; tests/numerics has the
/// bound).
Run prepare(const Problem& problem);
std::int64_t workspace_bytes(const Problem& problem);

}  // namespace fourfold::kernels::cpu::winograd
