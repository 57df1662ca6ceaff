// What one element contributes to a digest: the same bits on every backend.
#pragma once

#include <bit>
#include <cstdint>

#include "base/dtype.h"

namespace fourfold {

/// What the key of an element grows by from one to the next: 2^64 divided by the golden ratio.
inline constexpr std::uint64_t digest_step = 0x9E3779B97F4A7C15U;

/// lo(x) * hi(x), the halves of x = key xor bits * p, with p 2^32 divided by the golden ratio: as
/// XXH3 mixes, by multiplications of 32 bits, which every vector unit and GPU has. An element that
/// changes, or two that change places, leave a sum as it was in one of some 2^32 cases. Not for
/// tables, and not proof against an attacker.
constexpr std::uint64_t digest_mix(std::uint64_t key, std::uint64_t bits) {
  const std::uint64_t x = key ^ (bits * 0x9E3779B1U);
  return (x & 0xFFFFFFFFU) * (x >> 32);
}

constexpr std::uint64_t digest_term(std::uint64_t stream, std::uint64_t index, std::uint64_t bits) {
  return digest_mix(stream + index * digest_step, bits);
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

}  // namespace fourfold
