// What one element contributes to a digest: the same bits on every backend.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace fourfold::kernels {

/// SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA'14).
constexpr std::uint64_t splitmix_finaliser(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// finaliser((stream + index * golden ratio) xor finaliser(bits)). The inner finaliser keeps
/// neighbouring values from cancelling neighbouring indices.
constexpr std::uint64_t digest_term(std::uint64_t stream, std::uint64_t index, std::uint64_t bits) {
  return splitmix_finaliser((stream + index * 0x9E3779B97F4A7C15U) ^ splitmix_finaliser(bits));
}

/// The bits of an element, zero-extended.
inline std::uint64_t element_bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
inline std::uint64_t element_bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}
inline std::uint64_t element_bits(BFloat16 value) {
  return value.bits;
}
inline std::uint64_t element_bits(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace fourfold::kernels
