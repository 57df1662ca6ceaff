// Element types of safetensors files, and values moved from one floating type to another. Not what
// programs compute with: base/dtype.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace fourfold::checkpoint {

/// Each DType is one; files of other tools hold more.
class ElementType {
 public:
  enum class Kind : std::uint8_t {
    boolean,
    u8,
    i8,
    u16,
    i16,
    f16,
    bf16,
    u32,
    i32,
    f32,
    u64,
    i64,
    f64
  };
  constexpr ElementType(Kind kind) : kind_(kind) {}
  constexpr ElementType(DType dtype) : kind_(kind_of(dtype)) {}

  constexpr Kind kind() const { return kind_; }
  bool is_float() const;
  bool operator==(const ElementType&) const = default;

 private:
  static constexpr Kind kind_of(DType dtype) {
    switch (dtype) {
      case DType::f32:
        return Kind::f32;
      case DType::f64:
        return Kind::f64;
      case DType::bf16:
        return Kind::bf16;
      case DType::i32:
        return Kind::i32;
      case DType::i64:
        return Kind::i64;
      case DType::u8:
        return Kind::u8;
      case DType::u64:
        break;
    }
    return Kind::u64;
  }
  Kind kind_;
};

std::int64_t size_bytes(ElementType type);
/// "F32", "BF16", ...: the format's own names.
std::string_view safetensors_name(ElementType type);
std::optional<ElementType> parse_safetensors_name(std::string_view text);

/// IEEE 754 half precision, rounded to nearest even; what is too large becomes an infinity.
std::uint16_t to_half(float value);
/// Exact.
float from_half(std::uint16_t half);

/// Writes the values of `from` to `into`, each rounded to nearest even; NaN stays NaN. Requires
/// floating types, and as many elements in both. Returns how many finite values became infinite.
std::int64_t convert_elements(std::span<const std::byte> from, ElementType from_type,
                              std::span<std::byte> into, ElementType into_type);

}  // namespace fourfold::checkpoint
