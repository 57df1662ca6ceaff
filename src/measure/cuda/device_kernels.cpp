#include "measure/cuda/device_kernels.h"

#include <algorithm>

#include "base/stopwatch.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/target.h"
#include "measure/cuda/streams.h"
#include "measure/kernel_bench.h"

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

/// Each kernel is timed for so many seconds, after as many of warming up as are asked for.
Choosing choosing_on(BenchDevice& device, FloatProducts floats, double seconds, double warm_s) {
  Choosing made;
  made.implementations = [=](const kernels::Problem& problem) {
    return kernels::cuda::implementations(problem, floats, AttentionBy::cudnn_fast);
  };
  made.workspace_bytes = [](const kernels::Problem& problem, const std::string& name) {
    return kernels::cuda::needed_workspace_bytes(name, problem);
  };
  made.time = [&device, seconds, warm_s](const kernels::Problem& problem, const std::string& name) {
    DeviceKernelBench bench(device, problem, kernels::cuda::prepare(name, problem),
                            kernels::cuda::needed_workspace_bytes(name, problem));
    return bench.measure_s(seconds, warm_s);
  };
  return made;
}

}  // namespace

DeviceKernels device_kernels(BenchDevice& device, FloatProducts floats, double seconds,
                             const machine::PeakRates& peak) {
  DeviceKernels made;
  made.choosing = choosing_on(device, floats, seconds, warm_up_s);
  made.bytes_per_s = copy_bytes_per_s(device, seconds);
  made.peak_flops_per_s = [=](DType dtype) {
    if (dtype == DType::bf16) return peak.bf16_flops_per_s;
    return floats == FloatProducts::tf32 ? peak.tf32_flops_per_s : peak.f32_flops_per_s;
  };
  return made;
}

std::vector<machine::KernelTable::Line> time_device_kernels(
    BenchDevice& device, const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target,
    std::int64_t most_bytes, double seconds) {
  // Five samples of a millisecond; the kernels before have warmed the GPU up.
  constexpr double each_s = 5 * sample_s, warm_s = sample_s;
  std::vector<kernels::Problem> products;
  for (const kernels::Problem& problem : problems)
    if (op::work_class(problem.op) == op::WorkClass::product &&
        operand_bytes(problem) <= most_bytes)
      products.push_back(problem);
  const bool knows_all = std::ranges::all_of(
      products, [&](const auto& problem) { return find_line(known, problem) != nullptr; });
  const Stopwatch watch;
  if (!knows_all) copy_bytes_per_s(device, warm_up_s);  // clocks rise meanwhile
  return table_lines_until(
      [&] { return watch.seconds() >= seconds; }, known, products,
      allowed_by(target, choosing_on(device, FloatProducts::full, each_s, warm_s)));
}

}  // namespace fourfold::measure::cuda
