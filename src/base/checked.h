// Sums and products that may not fit 64 bits: of sizes that a file claims, and of counts that stand
// in memory which a fault may have changed.
#pragma once

#include <cstdint>
#include <optional>

namespace fourfold {

/// Nothing where the result does not fit.
inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}
inline std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

/// Modulo 2^64, as MPI's sum and a GPU's adder have it: a count that a fault has changed is a wrong
/// number then, but nothing undefined.
constexpr std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace fourfold
