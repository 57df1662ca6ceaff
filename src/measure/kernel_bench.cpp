#include "measure/kernel_bench.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "kernels/storage.h"
#include "measure/best_rate.h"
#include "measure/operands.h"

namespace fourfold::measure {
namespace {

constexpr std::int64_t alignment = 64;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

template <class T>
void fill(T* data, std::int64_t count, std::int64_t bound) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = spread(i, std::is_integral_v<T> ? bound : 1009);
    if constexpr (std::is_integral_v<T>)
      data[i] = static_cast<T>(number);
    else
      data[i] =
          static_cast<T>(static_cast<kernels::Sum<T>>((static_cast<double>(number) + 1) / 1024));
  }
}

void fill(const kernels::Tensor& tensor, std::int64_t bound) {
  const std::int64_t count = tensor.elements();
  switch (tensor.dtype) {
    case DType::f32:
      return fill(tensor.as<float>(), count, bound);
    case DType::f64:
      return fill(tensor.as<double>(), count, bound);
    case DType::i32:
      return fill(tensor.as<std::int32_t>(), count, bound);
    case DType::i64:
    case DType::u64:
      return fill(tensor.as<std::int64_t>(), count, bound);
    case DType::bf16:
      return fill(tensor.as<BFloat16>(), count, bound);
    case DType::u8:
      return fill(tensor.as<std::uint8_t>(), count, bound);
  }
}

std::int64_t bytes_of(const kernels::Tensor& tensor) {
  return aligned(tensor.elements() * size_bytes(tensor.dtype));
}

std::int64_t total_bytes(const kernels::Problem& problem) {
  std::int64_t total = 0;
  for (const kernels::Tensor& tensor : operands_of(problem)) total += bytes_of(tensor);
  return total;
}

}  // namespace

KernelBench::KernelBench(std::string_view implementation, const kernels::Problem& problem,
                         std::int64_t workspace_bytes)
    : memory_(total_bytes(problem) + aligned(workspace_bytes) + alignment),
      operands_(operands_of(problem)),
      run_(kernels::cpu::prepare(implementation, problem)) {
  auto* at = memory_.as<std::byte>();
  for (kernels::Tensor& tensor : operands_) {
    tensor.data = at;
    fill(tensor, op::integer_bound(problem.op, problem.shapes));
    at += bytes_of(tensor);
  }
  workspace_ = {at, static_cast<std::size_t>(workspace_bytes)};
}

double KernelBench::measure_s(double seconds) {
  return 1 / best_rate(seconds, 1, [&] { run_(operands_, workspace_); });
}

std::vector<double> measure_in_turn(std::vector<KernelBench>& benches, double seconds_each) {
  constexpr int rounds = 3;
  std::vector<double> best(benches.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < benches.size(); ++i)
      best[i] = std::min(best[i], benches[i].measure_s(seconds_each / rounds));
  return best;
}

}  // namespace fourfold::measure
