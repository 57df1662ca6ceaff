// What runs on a GPU need beyond the facts of cuda_parts.h: kernels and a backend. Functions of
// both folders cuda/ and no_cuda/.
#pragma once

#include <memory>
#include <optional>

#include "comm/world.h"
#include "machine/target.h"
#include "run/backend.h"

namespace fourfold::cli {

/// The facts of the CUDA kernels, or of our own ones alone; needs neither driver nor device. None
/// without CUDA in the build. Of the fastest, attention is cuDNN's where it was built in and the
/// first device has a kernel for it; without a device it is our own.
enum class CudaKernels : std::uint8_t { fastest, own };
std::optional<machine::Target> cuda_target(CudaKernels kernels);

/// For one rank, on the first device. Errors: UserError(environment) where it does not answer.
std::unique_ptr<run::Backend> make_cuda_backend(comm::World* world);

}  // namespace fourfold::cli
