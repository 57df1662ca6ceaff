#include "checkpoint/values.h"

#include <cstring>

#include "base/digest_term.h"
#include "base/error.h"

namespace fourfold::checkpoint {
namespace {

template <class T>
std::uint64_t digest(std::uint64_t stream, std::int64_t first, std::span<const std::byte> bytes) {
  // The key is counted up: no vector unit multiplies 64 bits as fast as it adds them.
  std::uint64_t sum = 0, key = stream + static_cast<std::uint64_t>(first) * digest_step;
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    sum += digest_mix(key, element_bits(value));
    key += digest_step;
  }
  return sum;
}

/// All bits of the exponent are set in what is not finite.
template <class Bits>
bool has_no_full_exponent(std::span<const std::byte> bytes, Bits exponent) {
  Bits any = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    any = static_cast<Bits>(any | ((bits & exponent) == exponent ? Bits{1} : Bits{0}));
  }
  return any == 0;
}

}  // namespace

std::uint64_t digest_of_values(DType dtype, RandomStream stream, std::int64_t first,
                               std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f32:
      return digest<float>(stream.id, first, bytes);
    case DType::f64:
      return digest<double>(stream.id, first, bytes);
    case DType::bf16:
      return digest<BFloat16>(stream.id, first, bytes);
    case DType::i64:
      return digest<std::int64_t>(stream.id, first, bytes);
    default:
      fail_internal("state is of floating point or a count");
  }
}

bool is_finite(DType dtype, std::span<const std::byte> bytes) {
  constexpr std::uint32_t f32 = 0x7F800000U;
  constexpr std::uint64_t f64 = 0x7FF0000000000000U;
  constexpr std::uint16_t bf16 = 0x7F80U;
  switch (dtype) {
    case DType::f32:
      return has_no_full_exponent(bytes, f32);
    case DType::f64:
      return has_no_full_exponent(bytes, f64);
    case DType::bf16:
      return has_no_full_exponent(bytes, bf16);
    default:
      return true;
  }
}

}  // namespace fourfold::checkpoint
