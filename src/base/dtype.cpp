#include "base/dtype.h"

#include <array>

#include "base/error.h"

namespace fourfold {
namespace {

struct Row {
  DType type;
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<Row, 7> kRows = {{{DType::f32, "f32", 4},
                                       {DType::f64, "f64", 8},
                                       {DType::bf16, "bf16", 2},
                                       {DType::i32, "i32", 4},
                                       {DType::i64, "i64", 8},
                                       {DType::u64, "u64", 8},
                                       {DType::u8, "u8", 1}}};

const Row& row(DType type) {
  for (const Row& r : kRows)
    if (r.type == type) return r;
  fail_internal("every dtype has a row in the table");
}

}  // namespace

std::int64_t size_bytes(DType type) {
  return row(type).bytes;
}
std::string_view to_string(DType type) {
  return row(type).name;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Row& r : kRows)
    if (r.name == text) return r.type;
  return std::nullopt;
}

DType accumulation_type(DType type) {
  return type == DType::bf16 ? DType::f32 : type;
}

}  // namespace fourfold
