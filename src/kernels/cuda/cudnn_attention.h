// Attention by cuDNN's fused kernels. The library's own headers stay in cudnn_attention.cpp, which
// is built where cuDNN and cudnn-frontend are found; elsewhere no_cudnn.cpp says that there is
// none.
#pragma once

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda::cudnn {

/// True if this program was built with cuDNN.
bool is_built();

/// True if cuDNN computes the op on the device that is current: op::Attention and
/// op::AttentionGradient as attention_fits has them, where the library has a kernel for the shape.
/// Asking prepares it: tenths of a second for each shape, the first time. False without a device.
bool computes(const Problem& problem);

/// Requires computes(problem). The gradient is deterministic. Calls allocate a little host memory.
Enqueue prepare(const Problem& problem);
std::int64_t workspace_bytes(const Problem& problem);

/// What is asked for at all: bf16, causal, one document in a sample, no dropout (cuDNN has random
/// numbers of its own), rows of heads at multiples of 16 bytes, heads of at most 128 elements; a
/// gradient of a multiple of four tokens and heads. Of shapes alone.
bool attention_fits(const Problem& problem);

}  // namespace fourfold::kernels::cuda::cudnn
