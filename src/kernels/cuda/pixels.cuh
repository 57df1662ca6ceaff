// A loop over elements on the device, one for each thread at a time: for small tensors, and for
// those whose elements need many others.
#pragma once

#include "kernels/cuda/map.cuh"
#include "kernels/pixels.h"

namespace fourfold::kernels::cuda {

/// Calls body(index) for the elements of the running thread.
template <class Body>
__device__ void for_own_elements(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       index < count; index += step)
    body(index);
}

}  // namespace fourfold::kernels::cuda
