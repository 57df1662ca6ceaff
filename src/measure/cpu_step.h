// The kernels of a step on this CPU, each by every implementation that has it, and the table of the
// best. A GPU's: device_step.h.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "machine/kernel_table.h"
#include "machine/target.h"
#include "measure/print.h"
#include "measure/step_calls.h"

namespace fourfold::measure {

/// The rates of products in a type and of memory that so many threads reach here.
Ceilings measure_ceilings(DType dtype, int threads, double seconds_each);

/// Prints a line for each call by each implementation, and one for the step; adds to the table what
/// its lines do not have yet. Each kernel is measured for so many seconds.
void measure_cpu_step(const std::vector<Call>& calls, const machine::Target& target, double seconds,
                      const Ceilings& ceilings, const Print& print, machine::KernelTable& table);

}  // namespace fourfold::measure
