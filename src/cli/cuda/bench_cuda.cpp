#include "cli/bench.h"

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "kernels/cuda/target.h"
#include "machine/peak_rates.h"
#include "measure/cuda/device.h"
#include "measure/cuda/device_kernels.h"
#include "measure/cuda/device_rates.h"
#include "measure/cuda_parts.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// How a GPU is to multiply float32 numbers.
kernels::cuda::FloatProducts float_products(const BenchArguments& arguments) {
  using kernels::cuda::FloatProducts;
  return arguments.dtype == "tf32" ? FloatProducts::tf32 : FloatProducts::full;
}

void print_device(const machine::CudaDevice& device,
                  const std::optional<machine::PeakRates>& sheet) {
  screen::print(
      "%s, %d multiprocessors, %s of L2\n%s\n\n", device.name.c_str(), device.multiprocessors,
      format_bytes(device.l2_bytes).c_str(),
      sheet ? format("peak: bf16 {:.0f}, tf32 {:.0f}, fp32 {:.0f} TFLOP/s, {:.2f} TB/s ({})",
                     sheet->bf16_flops_per_s / 1e12, sheet->tf32_flops_per_s / 1e12,
                     sheet->f32_flops_per_s / 1e12, sheet->bytes_per_s / 1e12, sheet->source)
                  .c_str()
            : "no data sheet of it is known here: rates alone");
}

}  // namespace

void bench_cuda(const BenchArguments& arguments) {
  namespace cuda = measure::cuda;
  const machine::CudaFacts facts = measure::cuda_facts();
  if (facts.state != machine::CudaState::ready)
    throw UserError(ExitCode::environment, machine::trouble(facts));
  const machine::CudaDevice& device = facts.devices.front();
  const auto sheet = machine::peak_rates(device.name);
  print_device(device, sheet);
  const machine::PeakRates peak = sheet.value_or(machine::PeakRates{});
  const auto measured = cuda::open_device();
  if (arguments.what == "kernels")
    bench_device_step(arguments, cuda::device_kernels(*measured, float_products(arguments),
                                                      arguments.seconds, peak));
  else if (arguments.what == "copy")
    cuda::measure_streams(*measured, arguments.seconds, peak.bytes_per_s, print_line);
  else if (arguments.what == "gemm")
    cuda::measure_products(*measured, arguments.seconds, peak, print_line);
  else
    cuda::measure_attention(*measured, arguments.seconds, peak, print_line);
  screen::print("\nmedians between events, warm clocks, operands that no cache holds\n");
}

}  // namespace fourfold::cli
