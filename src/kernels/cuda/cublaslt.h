// Products by cuBLASLt. The library's own headers stay in cublaslt.cpp.
#pragma once

#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda::cublaslt {

enum class Precision : std::uint8_t { full, tf32 };

/// Sums in f32. The algorithm is the library's first choice for the shape and the workspace, the
/// same in every run with the same library on the same device.
Enqueue prepare(const op::Matmul& op, const Problem& problem, Precision precision);

/// What NVIDIA advises for Hopper: https://docs.nvidia.com/cuda/cublas, "cublasSetWorkspace".
inline constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

}  // namespace fourfold::kernels::cuda::cublaslt
