// Turns what cuDNN's calls and those of its frontend return into errors. Where CUDA itself has
// failed, as when a GPU is lost, the library's words mislead: CUDA's are thrown then. Header only,
// as it is compiled where cuDNN is found alone.
#pragma once

#include <cudnn_frontend.h>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/check.h"

namespace fourfold::kernels::cuda::cudnn {

inline void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  check_cuda(cudaGetLastError(), call);
  fail_internal(format("{} succeeds; cuDNN says: {}", call, cudnnGetErrorString(status)));
}

inline void check(cudnn_frontend::error_t error, const char* what) {
  if (!error.is_bad()) return;
  check_cuda(cudaGetLastError(), what);
  fail_internal(format("{}; cuDNN says: {}", what, error.get_message()));
}

}  // namespace fourfold::kernels::cuda::cudnn
