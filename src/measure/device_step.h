// The kernels of a step on a GPU, each implementation that it has, and the table of the best. Not
// the GPU: a caller hands in what is measured and the clock.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine/kernel_table.h"
#include "measure/print.h"
#include "measure/product_table.h"
#include "measure/step_calls.h"

namespace fourfold::measure {

/// What a GPU has to choose among, and how it is timed.
struct DeviceKernels {
  Choosing choosing;
  double bytes_per_s = 0;  // that a copy moves, read and written; 0: not known
  /// The rate that a data sheet promises for products in a type; 0: not known.
  std::function<double(DType)> peak_flops_per_s;
};

/// The same without the implementations that the target may not have.
DeviceKernels allowed_by(const machine::Target& target, DeviceKernels kernels);

/// Prints a line for each call by each implementation, and one for the step; adds to the table what
/// its lines do not have yet.
void measure_step(const std::vector<Call>& calls, const DeviceKernels& kernels, const Print& print,
                  machine::KernelTable& table);

}  // namespace fourfold::measure
