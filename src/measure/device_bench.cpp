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

/// More do not push one another out of a cache sooner: of operands this small a call is a launch.
constexpr std::int64_t most_sets = 256;

std::int64_t device_bytes_of(const kernels::Tensor& tensor) {
  return device_aligned(tensor.elements() * size_bytes(tensor.dtype));
}

/// number(i) as element i.
template <class T, class Number>
void write_numbers(BenchDevice& device, const kernels::Tensor& tensor, Number number) {
  std::vector<T> numbers(static_cast<std::size_t>(tensor.elements()));
  for (std::int64_t i = 0; i < tensor.elements(); ++i)
    numbers[static_cast<std::size_t>(i)] = static_cast<T>(number(i));
  device.write(static_cast<std::byte*>(tensor.data), std::as_bytes(std::span(numbers)));
}

/// Random numbers are not below `least`, and integers of 32 bits below `bound`.
void fill(BenchDevice& device, const kernels::Tensor& tensor, float least, std::int64_t bound) {
  const auto one = [](std::int64_t) { return 1; };
  switch (tensor.dtype) {
    case DType::f32:
    case DType::bf16:
      return device.fill(static_cast<std::byte*>(tensor.data), tensor.elements(), tensor.dtype,
                         least);
    case DType::f64:
      return write_numbers<double>(device, tensor, one);
    case DType::i64:
    case DType::u64:
      return write_numbers<std::int64_t>(device, tensor, one);
    case DType::i32:
      return write_numbers<std::int32_t>(device, tensor,
                                         [&](std::int64_t i) { return spread(i, bound); });
    case DType::u8:
      return;
  }
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

double median_call_s(BenchDevice& device, double seconds, const TimedCall& call, double warm_s) {
  std::int64_t turn = 0;
  const auto time_s = [&](std::int64_t calls) {
    return device.time_s([&](kernels::cuda::Stream stream) {
      for (std::int64_t i = 0; i < calls; ++i) call(turn++, stream);
    });
  };
  double spent_before_s = 0, call_s = 0;
  for (int calls = 0; calls < least_calls || spent_before_s < warm_s; ++calls) {
    call_s = time_s(1);
    spent_before_s += call_s;
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
  return std::clamp<std::int64_t>((2 * cache_bytes + bytes - 1) / bytes, 1, most_sets);
}

DeviceKernelBench::DeviceKernelBench(BenchDevice& device, const kernels::Problem& problem,
                                     kernels::cuda::Enqueue run, std::int64_t workspace_bytes)
    : device_(device), run_(std::move(run)) {
  const std::vector<kernels::Tensor> operands = operands_of(problem);
  const op::Operands roles = op::operands(problem.op);
  std::int64_t bytes = 0;
  for (const kernels::Tensor& tensor : operands) bytes += device_bytes_of(tensor);
  // A switch or a position stays 0, as all memory is at first.
  const std::int64_t numbers = op::integer_bound(problem.op, problem.shapes);
  const std::int64_t bound = numbers > 2 ? numbers : 1;
  const std::int64_t sets = sets_of_operands(bytes, device.cache_bytes());
  std::byte* at = device.reserve(sets * bytes + device_aligned(workspace_bytes));
  for (std::int64_t set = 0; set < sets; ++set) {
    sets_.push_back(operands);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      kernels::Tensor& tensor = sets_.back()[i];
      tensor.data = at;
      fill(device, tensor, roles[i].role == op::Role::update ? 0.F : -1.F, bound);
      at += device_bytes_of(tensor);
    }
  }
  workspace_ = {at, static_cast<std::size_t>(workspace_bytes)};
}

double DeviceKernelBench::measure_s(double seconds, double warm_s) {
  const auto call = [&](std::int64_t turn, kernels::cuda::Stream stream) {
    run_(sets_[static_cast<std::size_t>(turn) % sets_.size()], workspace_, stream);
  };
  return median_call_s(device_, seconds, call, warm_s);
}

}  // namespace fourfold::measure
