// Products with an epilogue as cublasLtMatmul computes them: a model of the library, written from
// what its header says, that runs on the CPU in its place.
#pragma once

#include <cstddef>

#include "kernels/cuda/fused_product.h"

namespace fourfold::test {

/// Sums in double; it overwrites all of its workspace, of which it wants so many bytes.
inline constexpr std::size_t model_workspace_bytes = 64;
enum class Epilogues { some, none };
kernels::cuda::PrepareMultiply model_of_cublaslt(Epilogues epilogues);

}  // namespace fourfold::test
