// Attention and its gradient in bf16 by oneDNN's products, for CPUs whose instructions multiply
// bf16 many times as fast as our own tiles multiply float32.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu::attention_products {

/// True for attention and its gradient in bf16 where the CPU has products of that type.
bool computes(const op::Op& op, DType dtype);

/// Products are sums in float32 of elements in bf16, among them probabilities and the gradients of
/// scores, which are rounded once. Threads take whole groups of heads; no T x T tensor is kept.
Run prepare(const Problem& problem);
std::int64_t workspace_bytes(const Problem& problem);

}  // namespace fourfold::kernels::cpu::attention_products
