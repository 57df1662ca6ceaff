// Matrix products by oneDNN; onednn.cpp alone sees its header.
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::onednn {

/// f32 only. Primitive and memory objects are made here; a call sets their pointers.
Run prepare(const op::Matmul& op, const Problem& problem);
/// The primitive's scratchpad.
std::int64_t workspace_bytes(const op::Matmul& op, const Problem& problem);

/// "2.6.0".
std::string version();

}  // namespace fourfold::kernels::cpu::onednn
