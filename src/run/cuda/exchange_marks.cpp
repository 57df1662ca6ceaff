#include "run/cuda/exchange_marks.h"

#include <atomic>
#include <limits>
#include <vector>

namespace fourfold::run::cuda {
namespace {

using Number = std::uint32_t;
constexpr Number none_is_over = std::numeric_limits<Number>::max();

std::int64_t bytes_of_numbers(std::size_t count) {
  return static_cast<std::int64_t>(count * sizeof(Number));
}

}  // namespace

ExchangeMarks::ExchangeMarks(Device& device, std::size_t instructions, std::size_t streams,
                             Staging& staging, Stream stream)
    : device_(device),
      instructions_(instructions),
      streams_(streams),
      numbers_(make_memory(device, bytes_of_numbers(instructions + streams))),
      last_(make_pinned(device, bytes_of_numbers(streams))) {
  std::vector<Number> numbers(instructions + streams, none_is_over);
  for (std::size_t i = 0; i < instructions; ++i) numbers[i] = static_cast<Number>(i);
  staging.write(std::as_bytes(std::span(numbers)), numbers_.get(), stream);
}

void ExchangeMarks::begin(Stream stream) const {
  device_.copy(dense(last_.get(), numbers_.get() + bytes_of_numbers(instructions_),
                     static_cast<std::size_t>(bytes_of_numbers(streams_))),
               stream);
}

void ExchangeMarks::over(const Exchange& exchange, Stream stream) const {
  device_.copy(dense(last_.get() + bytes_of_numbers(exchange.stream),
                     numbers_.get() + bytes_of_numbers(exchange.instruction), sizeof(Number)),
               stream);
}

std::optional<std::size_t> ExchangeMarks::first_open(std::span<const Exchange> exchanges) const {
  for (const Exchange& exchange : exchanges) {
    Number& of_stream = reinterpret_cast<Number*>(last_.get())[exchange.stream];
    const Number last = std::atomic_ref(of_stream).load(std::memory_order_relaxed);
    if (last == none_is_over || last < exchange.instruction) return exchange.instruction;
  }
  return std::nullopt;
}

}  // namespace fourfold::run::cuda
