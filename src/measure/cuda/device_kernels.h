// What a bench of a step on a GPU chooses among: the kernels of this build, timed on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/target.h"
#include "machine/peak_rates.h"
#include "measure/device_bench.h"
#include "measure/device_step.h"

namespace fourfold::measure::cuda {

using kernels::cuda::FloatProducts;

/// Each kernel is timed for so many seconds. The device must outlive it; its copy is measured at
/// once.
DeviceKernels device_kernels(BenchDevice& device, FloatProducts floats, double seconds,
                             const machine::PeakRates& peak);

/// Lines of a table for the products and convolutions among the problems: those that are known, and
/// those that are measured now, until `seconds` are over, among the kernels that the target may
/// have. One whose operands take more than `most_bytes` has none. f32 is not rounded to tf32.
/// Memory for operands is given back with the device.
std::vector<machine::KernelTable::Line> time_device_kernels(
    BenchDevice& device, const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target,
    std::int64_t most_bytes, double seconds);

}  // namespace fourfold::measure::cuda
