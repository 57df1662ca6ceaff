// fourfold bench kernels --device cuda: the kernels of a step on a GPU, each implementation that it
// has, and the table of the best. Not the GPU: a caller hands in what is measured and the clock.
#pragma once

#include <functional>
#include <string>

#include "cli/bench_calls.h"
#include "measure/product_table.h"

namespace fourfold::cli {

/// What a GPU has to choose among, and how it is timed.
struct DeviceKernels {
  std::string device;  // as kernel_device
  measure::Choosing choosing;
  double bytes_per_s = 0;  // that a copy moves, read and written; 0: not known
  /// That a data sheet promises for products in a type; 0: not known.
  std::function<double(DType)> peak_flops_per_s;
};

/// Prints a line for each call of the step of arguments.config, or of layers like those of GPT-2
/// 124M and 1.5B, by each implementation; writes the table where arguments.output says.
void bench_device(const BenchArguments& arguments, const DeviceKernels& kernels);

}  // namespace fourfold::cli
