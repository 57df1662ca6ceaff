#include "measure/kernel_bench.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "kernels/storage.h"
#include "measure/best_rate.h"
#include "measure/operands.h"
#include "measure/take_turns.h"

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

std::int64_t most_workspace_bytes(const std::vector<Contender>& contenders) {
  std::int64_t most = 0;
  for (const Contender& one : contenders) most = std::max(most, one.workspace_bytes);
  return most;
}

}  // namespace

std::int64_t operand_bytes(const kernels::Problem& problem) {
  std::int64_t total = 0;
  for (const kernels::Tensor& tensor : operands_of(problem)) total += bytes_of(tensor);
  return total;
}

KernelBench::KernelBench(const std::vector<Contender>& contenders, const kernels::Problem& problem,
                         std::int64_t sets)
    : memory_(sets * operand_bytes(problem) + aligned(most_workspace_bytes(contenders)) +
              alignment),
      sets_(static_cast<std::size_t>(sets), operands_of(problem)) {
  for (const Contender& one : contenders)
    runs_.push_back(kernels::cpu::prepare(one.implementation, problem));
  auto* at = memory_.as<std::byte>();
  for (std::vector<kernels::Tensor>& operands : sets_)
    for (std::size_t i = 0; i < operands.size(); ++i) {
      kernels::Tensor& tensor = operands[i];
      tensor.data = at;
      if (&operands == &sets_.front())
        fill(tensor, op::integer_bound(problem.op, problem.shapes));
      else
        std::memcpy(at, sets_.front()[i].data, static_cast<std::size_t>(bytes_of(tensor)));
      at += bytes_of(tensor);
    }
  workspace_ = {at, static_cast<std::size_t>(most_workspace_bytes(contenders))};
}

void KernelBench::call(const kernels::Run& run) {
  run(sets_[next_], workspace_);
  next_ = (next_ + 1) % sets_.size();
}

double KernelBench::measure_s(const kernels::Run& run, double seconds) {
  return 1 / best_rate(seconds, 1, [&] { call(run); });
}

double KernelBench::measure_s(double seconds) {
  return measure_s(runs_.at(0), seconds);
}

std::vector<double> KernelBench::measure_all_s(double seconds_each) {
  for (const kernels::Run& run : runs_) call(run);
  return take_turns(runs_.size(), seconds_each, [this](std::size_t i, int calls) {
    const double begin = now_s();
    for (int n = 0; n < calls; ++n) call(runs_[i]);
    return now_s() - begin;
  });
}

}  // namespace fourfold::measure
