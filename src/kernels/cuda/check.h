// Turns what CUDA's calls return into errors.
#pragma once

#include <cuda_runtime_api.h>

namespace fourfold::kernels::cuda {

/// Throws, unless `status` is success: UserError(environment or out_of_memory) where the user can
/// do something about it, else InternalError, each with the call's name and CUDA's text.
void check_cuda(cudaError_t status, const char* call);

}  // namespace fourfold::kernels::cuda
