// Matrix products by OpenBLAS; openblas.cpp alone sees its header.
#pragma once

#include <string>
#include <string_view>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::openblas {

/// What tables of kernels call it.
inline constexpr std::string_view implementation = "openblas";

/// f32 and f64; sizes below 2^31. Needs no workspace.
Run prepare(const op::Contract& op, const Problem& problem);

/// "0.3.21, OpenMP, kernels for SkylakeX".
std::string version();

}  // namespace fourfold::kernels::cpu::openblas
