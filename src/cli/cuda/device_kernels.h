// What `bench kernels --device cuda` chooses among: the kernels of this build, timed on a device.
#pragma once

#include "cli/bench_device.h"
#include "machine/peak_rates.h"
#include "measure/device_bench.h"

namespace fourfold::cli {

/// The device must outlive it. Its copy is measured at once.
DeviceKernels device_kernels(measure::BenchDevice& device, const BenchArguments& arguments,
                             const machine::PeakRates& peak);

}  // namespace fourfold::cli
