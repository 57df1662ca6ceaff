// Element types of tensors and the bf16 storage type.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fourfold {

enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u64, u8 };

std::int64_t size_bytes(DType type);
/// "f32", "f64", "bf16", "i32", "i64", "u64", "u8".
std::string_view to_string(DType type);
std::optional<DType> parse_dtype(std::string_view text);

/// The type in which sums over elements of `type` are kept: f32 for bf16, otherwise `type` itself.
DType accumulation_type(DType type);

/// bfloat16 storage: the upper half of a float, rounded to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = is_nan ? static_cast<std::uint16_t>((word >> 16) | 0x40U)
                  : static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  explicit constexpr operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// C++ type -> DType, for kernels and tests.
template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::u8;

}  // namespace fourfold
