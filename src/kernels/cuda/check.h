// Turns what CUDA's calls return into errors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace fourfold::kernels::cuda {

/// Throws, unless `status` is success: UserError(environment or out_of_memory) where the user can
/// do something about it, else InternalError, each with the call's name and CUDA's text.
void check_cuda(cudaError_t status, const char* call);

/// Lets a kernel be launched with so much shared memory. Throws UserError(environment) where a
/// block of the current device has less: some kernels need what data-centre GPUs have.
void allow_shared_bytes(const void* kernel, std::size_t bytes);

}  // namespace fourfold::kernels::cuda
