#include "measure/device_bench.h"

#include <algorithm>
#include <utility>

#include "measure/operands.h"

namespace fourfold::measure {
namespace {

constexpr std::int64_t device_alignment = 256;  // what CUDA's own allocations have

std::int64_t device_aligned(std::int64_t bytes) {
  return (bytes + device_alignment - 1) / device_alignment * device_alignment;
}

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16;
}

std::int64_t device_bytes_of(const kernels::Tensor& tensor) {
  return device_aligned(tensor.elements() * size_bytes(tensor.dtype));
}

void write_spread(BenchDevice& device, std::byte* at, std::int64_t count, std::int64_t bound) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    numbers[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(spread(i, bound));
  device.write(at, std::as_bytes(std::span(numbers)));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double median_call_s(BenchDevice& device, double seconds, const TimedCall& call) {
  std::int64_t turn = 0;
  const auto time_s = [&](std::int64_t calls) {
    return device.time_s([&](kernels::cuda::Stream stream) {
      for (std::int64_t i = 0; i < calls; ++i) call(turn++, stream);
    });
  };
  double warm_s = 0, call_s = 0;
  for (int calls = 0; calls < least_calls || warm_s < warm_up_s; ++calls) {
    call_s = time_s(1);
    warm_s += call_s;
  }
  const std::int64_t calls =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(sample_s / std::max(call_s, 1e-7)));
  std::vector<double> samples;
  for (double spent_s = 0; spent_s < seconds || samples.size() < least_samples;) {
    const double sample = time_s(calls);
    spent_s += sample;
    samples.push_back(sample / static_cast<double>(calls));
  }
  return median(std::move(samples));
}

std::int64_t sets_of_operands(std::int64_t bytes, std::int64_t cache_bytes) {
  return std::max<std::int64_t>(1, (2 * cache_bytes + bytes - 1) / bytes);
}

DeviceKernelBench::DeviceKernelBench(BenchDevice& device, const kernels::Problem& problem,
                                     kernels::cuda::Enqueue run, std::int64_t workspace_bytes)
    : device_(device), run_(std::move(run)) {
  const std::vector<kernels::Tensor> operands = operands_of(problem);
  std::int64_t bytes = 0;
  for (const kernels::Tensor& tensor : operands) bytes += device_bytes_of(tensor);
  // A switch or a position stays 0, as all memory is at first.
  const std::int64_t numbers = op::integer_bound(problem.op, problem.shapes);
  const std::int64_t bound = numbers > 2 ? numbers : 1;
  const std::int64_t sets = sets_of_operands(bytes, device.cache_bytes());
  std::byte* at = device.reserve(sets * bytes + device_aligned(workspace_bytes));
  for (std::int64_t set = 0; set < sets; ++set) {
    sets_.push_back(operands);
    for (kernels::Tensor& tensor : sets_.back()) {
      tensor.data = at;
      if (is_floating(tensor.dtype))
        device.fill(at, tensor.elements(), tensor.dtype);
      else if (tensor.dtype == DType::i32)
        write_spread(device, at, tensor.elements(), bound);
      at += device_bytes_of(tensor);
    }
  }
  workspace_ = {at, static_cast<std::size_t>(workspace_bytes)};
}

double DeviceKernelBench::measure_s(double seconds) {
  return median_call_s(device_, seconds, [&](std::int64_t turn, kernels::cuda::Stream stream) {
    run_(sets_[static_cast<std::size_t>(turn) % sets_.size()], workspace_, stream);
  });
}

}  // namespace fourfold::measure
