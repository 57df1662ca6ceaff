// Matrix products and convolutions by oneDNN; onednn.cpp alone sees its header.
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::onednn {

/// True if oneDNN is used for an op in a type: contract, and convolution with its gradients, in
/// f32.
bool computes(const op::Op& op, DType dtype);

/// The kernel of a problem that oneDNN computes. Primitive and memory objects are made here; a call
/// sets their pointers.
Run prepare(const Problem& problem);
/// Bytes of the primitives' scratchpad and of weights in the format that a convolution wants.
std::int64_t workspace_bytes(const Problem& problem);

/// "2.6.0".
std::string version();

}  // namespace fourfold::kernels::cpu::onednn
