#include "generate/numbers.h"

#include <cstring>

#include "base/error.h"

namespace fourfold::generate {
namespace {

/// visit(T{}) for the type of a floating-point buffer.
template <class Visit>
auto for_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(float{});
    case DType::f64:
      return visit(double{});
    case DType::bf16:
      return visit(BFloat16{});
    default:
      fail_internal("what is generated is f32, f64 or bf16");
  }
}

}  // namespace

std::vector<double> numbers_of(std::span<const std::byte> bytes, DType dtype) {
  return for_type(dtype, [&]<class T>(T) {
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    std::vector<double> numbers;
    numbers.reserve(values.size());
    for (const T value : values) {
      if constexpr (std::is_same_v<T, BFloat16>)
        numbers.push_back(static_cast<float>(value));
      else
        numbers.push_back(value);
    }
    return numbers;
  });
}

void store_numbers(std::span<const double> numbers, DType dtype, std::span<std::byte> into) {
  for_type(dtype, [&]<class T>(T) {
    require(into.size() == numbers.size() * sizeof(T), "a buffer holds as many numbers");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      T value;
      if constexpr (std::is_same_v<T, BFloat16>)
        value = BFloat16(static_cast<float>(numbers[i]));
      else
        value = static_cast<T>(numbers[i]);
      std::memcpy(into.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
}

}  // namespace fourfold::generate
