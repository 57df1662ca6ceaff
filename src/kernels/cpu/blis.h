// Matrix products by BLIS, where the build found it; blis.cpp alone sees its header.
#pragma once

#include <string>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::blis {

/// f32 and f64. Needs no workspace.
Run prepare(const op::Contract& op, const Problem& problem);

/// "0.9.0, kernels for zen3".
std::string version();

}  // namespace fourfold::kernels::cpu::blis
