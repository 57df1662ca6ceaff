#include "checkpoint/element_type.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace fourfold::checkpoint {
namespace {

using Kind = ElementType::Kind;

struct Row {
  Kind kind;
  std::int64_t bytes;
  std::string_view name;
};
/// In the order of Kind.
constexpr std::array<Row, 13> rows = {{{Kind::boolean, 1, "BOOL"},
                                       {Kind::u8, 1, "U8"},
                                       {Kind::i8, 1, "I8"},
                                       {Kind::u16, 2, "U16"},
                                       {Kind::i16, 2, "I16"},
                                       {Kind::f16, 2, "F16"},
                                       {Kind::bf16, 2, "BF16"},
                                       {Kind::u32, 4, "U32"},
                                       {Kind::i32, 4, "I32"},
                                       {Kind::f32, 4, "F32"},
                                       {Kind::u64, 8, "U64"},
                                       {Kind::i64, 8, "I64"},
                                       {Kind::f64, 8, "F64"}}};

/// Storage of a half, told apart from other 16-bit numbers.
struct Half {
  std::uint16_t bits;
};

double value_of(float value) {
  return static_cast<double>(value);
}
double value_of(double value) {
  return value;
}
double value_of(BFloat16 value) {
  return static_cast<double>(static_cast<float>(value));
}
double value_of(Half value) {
  return static_cast<double>(from_half(value.bits));
}

/// A float that rounds on to fewer bits as `value` itself would: the last bit remembers that
/// something was cut off (rounding to odd).
float narrowed(double value) {
  const auto near = static_cast<float>(value);
  const auto back = static_cast<double>(near);
  if (back == value || !std::isfinite(value) || !std::isfinite(near)) return near;
  auto bits = std::bit_cast<std::uint32_t>(near);
  if (std::abs(back) > std::abs(value)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

void store(double value, float& into) {
  into = static_cast<float>(value);
}
void store(double value, double& into) {
  into = value;
}
void store(double value, BFloat16& into) {
  into = BFloat16(narrowed(value));
}
void store(double value, Half& into) {
  into.bits = to_half(narrowed(value));
}

template <class From, class Into>
std::int64_t convert(std::span<const std::byte> from, std::span<std::byte> into) {
  const std::size_t count = from.size() / sizeof(From);
  require(into.size() == count * sizeof(Into), "values are converted one by one");
  std::int64_t overflows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    Into result;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    store(value_of(value), result);
    std::memcpy(into.data() + i * sizeof(Into), &result, sizeof(Into));
    if (std::isfinite(value_of(value)) && !std::isfinite(value_of(result))) ++overflows;
  }
  return overflows;
}

template <class From>
std::int64_t convert_from(std::span<const std::byte> from, std::span<std::byte> into,
                          ElementType into_type) {
  switch (into_type.kind()) {
    case Kind::f16:
      return convert<From, Half>(from, into);
    case Kind::bf16:
      return convert<From, BFloat16>(from, into);
    case Kind::f32:
      return convert<From, float>(from, into);
    case Kind::f64:
      return convert<From, double>(from, into);
    default:
      fail_internal("values are converted to a floating type");
  }
}

}  // namespace

bool ElementType::is_float() const {
  return kind_ == Kind::f16 || kind_ == Kind::bf16 || kind_ == Kind::f32 || kind_ == Kind::f64;
}

std::int64_t size_bytes(ElementType type) {
  return rows[static_cast<std::size_t>(type.kind())].bytes;
}

std::string_view safetensors_name(ElementType type) {
  return rows[static_cast<std::size_t>(type.kind())].name;
}

std::optional<ElementType> parse_safetensors_name(std::string_view text) {
  for (const Row& row : rows)
    if (row.name == text) return row.kind;
  return std::nullopt;
}

std::uint16_t to_half(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000U);
  const std::uint32_t size = word & 0x7fffffffU;
  const auto signed_half = [sign](std::uint32_t bits) {
    return static_cast<std::uint16_t>(sign | bits);
  };
  if (size > 0x7f800000U) return signed_half(0x7e00U);   // NaN
  if (size >= 0x477ff000U) return signed_half(0x7c00U);  // from 65520 on the nearest is infinity
  if (size < 0x38800000U) {  // below 2^-14: a multiple of 2^-24, rounded by the addition
    const float shifted = std::bit_cast<float>(size) + 0.5F;
    return signed_half(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U);
  }
  // The exponent's bias falls from 127 to 15, 13 bits of the fraction go.
  return signed_half((size - 0x38000000U + 0xfffU + ((size >> 13) & 1U)) >> 13);
}

float from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, size = half & 0x7fffU;
  std::uint32_t word = 0;
  if (size >= 0x7c00U) {
    word = 0x7f800000U | ((size & 0x3ffU) << 13);
  } else if (size >= 0x400U) {
    word = (size << 13) + 0x38000000U;
  } else {
    word = std::bit_cast<std::uint32_t>(static_cast<float>(size) * 0x1p-24F);
  }
  return std::bit_cast<float>(sign | word);
}

std::int64_t convert_elements(std::span<const std::byte> from, ElementType from_type,
                              std::span<std::byte> into, ElementType into_type) {
  if (from_type == into_type) {
    require(from.size() == into.size(), "values are converted one by one");
    if (!from.empty()) std::memcpy(into.data(), from.data(), from.size());
    return 0;
  }
  switch (from_type.kind()) {
    case Kind::f16:
      return convert_from<Half>(from, into, into_type);
    case Kind::bf16:
      return convert_from<BFloat16>(from, into, into_type);
    case Kind::f32:
      return convert_from<float>(from, into, into_type);
    case Kind::f64:
      return convert_from<double>(from, into, into_type);
    default:
      fail_internal("values are converted from a floating type");
  }
}

}  // namespace fourfold::checkpoint
