// The backend of one of several ranks that are threads of one process and share one GPU.
#pragma once

#include <memory>

#include "comm/world.h"
#include "run/cuda/cuda_backend.h"
#include "run/cuda/shared_gpu.h"

namespace fourfold::run::cuda {

/// For the rank whose thread calls; both must outlive the backend. `options` says the rest:
/// kernels, staging.
std::unique_ptr<Backend> make_shared_gpu_backend(SharedGpu& gpu, comm::World& world,
                                                 CudaOptions options);

}  // namespace fourfold::run::cuda
