// Attention by cuDNN's fused kernels. The library's own headers stay in cudnn_attention.cpp, which
// is built where cuDNN and cudnn-frontend are found; elsewhere no_cudnn.cpp says that there is
// none.
#pragma once

#include <optional>
#include <string_view>

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda::cudnn {

/// True if this program was built with cuDNN.
bool is_built();

/// How a kernel adds up what blocks of a GPU give to one sum: in one order, so that runs have the
/// same bits, or as they come, for which cuDNN's gradient writes no T x T tensor.
enum class Order : std::uint8_t { fixed, any };

/// Names of implementations: "cudnn" is of a fixed order, "cudnn_fast" of any. Nothing for others.
std::optional<Order> order_of(std::string_view implementation);

/// True if cuDNN computes the op on the device that is current: op::Attention and
/// op::AttentionGradient as attention_fits has them, where the library has a kernel for the shape.
/// Asking prepares it: tenths of a second for each shape, the first time. False without a device.
bool computes(const Problem& problem, Order order);

/// Requires computes(problem, order). Calls allocate a little host memory.
Enqueue prepare(const Problem& problem, Order order);
std::int64_t workspace_bytes(const Problem& problem, Order order);

/// True if cuDNN is asked at all: for bf16, causal or of all tokens, one document in a sample, no
/// dropout (cuDNN has random numbers of its own), rows of heads at multiples of 16 bytes, heads of
/// at most 256 elements; a gradient of a multiple of four tokens and heads. In any order, the
/// gradient alone: attention itself has the same bits in every run. Of shapes alone.
bool attention_fits(const Problem& problem, Order order);

}  // namespace fourfold::kernels::cuda::cudnn
