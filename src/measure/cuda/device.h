// The CUDA device on which measure/device_bench.h times work. The only file of this room that calls
// CUDA's runtime.
#pragma once

#include <memory>

#include "measure/device_bench.h"

namespace fourfold::measure::cuda {

/// The device of this number, in CUDA's order. Throws UserError(environment) where it does not
/// answer.
std::unique_ptr<BenchDevice> open_device(int number = 0);

/// Enqueues a copy by CUDA itself, within the device.
void copy_by_cuda(const std::byte* from, std::int64_t bytes, std::byte* to,
                  kernels::cuda::Stream stream);

}  // namespace fourfold::measure::cuda
