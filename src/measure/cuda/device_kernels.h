// What a bench of a step on a GPU chooses among: the kernels of this build, timed on a device.
#pragma once

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

}  // namespace fourfold::measure::cuda
