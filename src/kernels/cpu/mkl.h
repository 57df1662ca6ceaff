// Matrix products by MKL, where the build found it; mkl.cpp alone sees its headers.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::mkl {

/// f32 and f64. Needs no workspace.
Run prepare(const op::Contract& op, const Problem& problem);

/// "2026.0.2".
std::string version();

}  // namespace fourfold::kernels::cpu::mkl
