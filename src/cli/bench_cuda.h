// fourfold bench --device cuda. Two folders have bench_cuda, cuda/ and no_cuda/, and CMake takes
// one.
#pragma once

#include <string>

#include "cli/commands.h"
#include "kernels/cuda/target.h"
#include "measure/device_step.h"

namespace fourfold::cli {

/// `bench gemm|attention|kernels|copy` on the first GPU. Throws UserError(environment) where none
/// can be used.
void bench_cuda(const BenchArguments& arguments);

/// `bench kernels` on a GPU whose kernels these are: the step of arguments.config, or of layers
/// like those of GPT-2 124M and 1.5B. Writes the table where arguments.output says.
void bench_device_step(const BenchArguments& arguments, const measure::DeviceKernels& kernels);

/// How a GPU is to multiply float32 numbers.
inline kernels::cuda::FloatProducts float_products(const BenchArguments& arguments) {
  using kernels::cuda::FloatProducts;
  return arguments.dtype == "tf32" ? FloatProducts::tf32 : FloatProducts::full;
}

/// Shows a line at once.
void print_line(const std::string& line);

}  // namespace fourfold::cli
