#include "checkpoint/element_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace fourfold::checkpoint {
namespace {

using Kind = ElementType::Kind;

TEST(ElementType, every_name_reads_back) {
  for (int kind = 0; kind <= static_cast<int>(Kind::f64); ++kind) {
    const ElementType type = static_cast<Kind>(kind);
    EXPECT_EQ(parse_safetensors_name(safetensors_name(type)), type);
  }
  EXPECT_EQ(parse_safetensors_name("f32"), std::nullopt);
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u64, DType::u8})
    EXPECT_EQ(size_bytes(ElementType(dtype)), fourfold::size_bytes(dtype));
}

/// The value of a half by the words of IEEE 754.
double half_value(std::uint16_t half) {
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const double size = exponent == 31  ? (fraction != 0 ? std::nan("") : HUGE_VAL)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -size : size;
}

TEST(ElementType, every_half_has_its_value_and_reads_back) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<double>(from_half(half));
    if (std::isnan(half_value(half))) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(from_half(to_half(from_half(half)))));
      continue;
    }
    ASSERT_EQ(value, half_value(half)) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(half_value(half)));
    ASSERT_EQ(to_half(static_cast<float>(value)), half);
  }
}

TEST(ElementType, between_two_halves_the_nearest_is_taken_and_the_even_one_in_the_middle) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle = static_cast<float>((half_value(low) + half_value(high)) / 2);
    ASSERT_EQ(to_half(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 0.F)), low) << bits;
    ASSERT_EQ(to_half(std::nextafter(middle, 1e9F)), high) << bits;
  }
  EXPECT_EQ(to_half(65519.996F), 0x7bff);
  EXPECT_EQ(to_half(65520.F), 0x7c00);
  EXPECT_EQ(to_half(-1e30F), 0xfc00);
}

template <class From, class Into>
Into converted(From value, ElementType from, ElementType into, std::int64_t overflows = 0) {
  Into result;
  EXPECT_EQ(convert_elements(std::as_bytes(std::span(&value, 1)), from,
                             std::as_writable_bytes(std::span(&result, 1)), into),
            overflows);
  return result;
}

TEST(ElementType, doubles_are_rounded_once_not_twice) {
  // 1 + 2^-8 + 2^-40: by way of a float it would lie in the middle of two bf16 and become even.
  const double value = 1 + 0x1p-8 + 0x1p-40;
  const auto rounded = converted<double, BFloat16>(value, DType::f64, DType::bf16);
  EXPECT_EQ(static_cast<float>(rounded), 1 + 0x1p-7F);
  const auto half = converted<double, std::uint16_t>(1 + 0x1p-11 + 0x1p-40, DType::f64, Kind::f16);
  EXPECT_EQ(from_half(half), 1 + 0x1p-10F);
  EXPECT_EQ((converted<float, double>(0.1F, DType::f32, DType::f64)), static_cast<double>(0.1F));
}

TEST(ElementType, values_that_become_infinite_are_counted) {
  EXPECT_TRUE(std::isinf((converted<double, float>(1e300, DType::f64, DType::f32, 1))));
  EXPECT_EQ((converted<float, std::uint16_t>(1e6F, DType::f32, Kind::f16, 1)), 0x7c00);
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ((converted<float, std::uint16_t>(infinite, DType::f32, Kind::f16)), 0x7c00);
  EXPECT_TRUE(std::isnan(
      static_cast<float>(converted<float, BFloat16>(std::nanf(""), DType::f32, DType::bf16))));
}

}  // namespace
}  // namespace fourfold::checkpoint
