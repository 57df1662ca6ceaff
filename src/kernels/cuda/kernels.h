// The CUDA kernels as those who run programs see them. Not the CUDA API: this header compiles
// without it.
#pragma once

#include <functional>
#include <string_view>

#include "kernels/kernel.h"

struct CUstream_st;  // CUDA's own name for what a stream is

namespace fourfold::kernels::cuda {

using Stream = CUstream_st*;

/// A kernel ready to be enqueued on operands of the shapes it was prepared for; operands and
/// workspace lie in device memory. A call only launches: it neither waits nor allocates, and faults
/// of the computation surface when the stream is waited for. The one exception is init_normal,
/// which computes on the host and waits.
using Enqueue = std::function<void(Tensors, Workspace, Stream)>;

/// The kernel that `implementation` names: "own" for every op; for products, also with what follows
/// them, "cublaslt" and "cublaslt_tf32" (f32 rounded to tf32 going in; cublaslt.h has more names).
/// "cudnn" for attention where it fits (cudnn_attention.h) and for convolutions
/// (cudnn_convolution.h has more names), "cublaslt" for convolutions that are products too. f32,
/// and bf16 storage with sums in f32. Throws InternalError when there is no such implementation of
/// the op.
Enqueue prepare(std::string_view implementation, const Problem& problem);

/// "own" alone, which needs none of CUDA's libraries; bytes of its workspace, 16-byte aligned.
Enqueue prepare_own(const Problem& problem);
std::int64_t own_workspace_bytes(const Problem& problem);

}  // namespace fourfold::kernels::cuda
