// Matrix products by OpenBLAS; openblas.cpp alone sees its header.
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::openblas {

/// f32 and f64; sizes below 2^31. Needs no workspace.
Run prepare(const op::Matmul& op, const Problem& problem);

}  // namespace fourfold::kernels::cpu::openblas
