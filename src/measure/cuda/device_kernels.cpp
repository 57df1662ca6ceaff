#include "measure/cuda/device_kernels.h"

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "measure/cuda/streams.h"

namespace fourfold::measure::cuda {
namespace {

using kernels::cuda::AttentionBy;

/// Within the cache of no GPU.
constexpr std::int64_t copied_bytes = std::int64_t{256} << 20;

double copy_bytes_per_s(BenchDevice& device, double seconds) {
  std::byte* const memory = device.reserve(2 * copied_bytes);
  constexpr std::int64_t elements = copied_bytes / std::int64_t{sizeof(float)};
  device.fill(memory, 2 * elements, DType::f32, -1);
  const auto* from = reinterpret_cast<const float*>(memory);
  auto* to = reinterpret_cast<float*>(memory + copied_bytes);
  return 2. * static_cast<double>(copied_bytes) /
         median_call_s(device, seconds, [&](std::int64_t, kernels::cuda::Stream stream) {
           copy(from, elements, to, stream);
         });
}

}  // namespace

DeviceKernels device_kernels(BenchDevice& device, FloatProducts floats, double seconds,
                             const machine::PeakRates& peak) {
  DeviceKernels made;
  made.choosing.implementations = [=](const kernels::Problem& problem) {
    return kernels::cuda::implementations(problem, floats, AttentionBy::cudnn_fast);
  };
  made.choosing.workspace_bytes = [](const kernels::Problem& problem, const std::string& name) {
    return kernels::cuda::needed_workspace_bytes(name, problem);
  };
  made.choosing.time = [&device, seconds](const kernels::Problem& problem,
                                          const std::string& name) {
    DeviceKernelBench bench(device, problem, kernels::cuda::prepare(name, problem),
                            kernels::cuda::needed_workspace_bytes(name, problem));
    return bench.measure_s(seconds);
  };
  made.bytes_per_s = copy_bytes_per_s(device, seconds);
  made.peak_flops_per_s = [=](DType dtype) {
    if (dtype == DType::bf16) return peak.bf16_flops_per_s;
    return floats == FloatProducts::tf32 ? peak.tf32_flops_per_s : peak.f32_flops_per_s;
  };
  return made;
}

}  // namespace fourfold::measure::cuda
