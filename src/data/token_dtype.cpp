#include "data/token_dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/error.h"

namespace fourfold::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

template <class T>
std::optional<BadToken> unpack_as(std::span<const std::byte> bytes, std::int64_t position,
                                  std::int64_t vocab_size, std::span<std::int32_t> into) {
  for (std::size_t i = 0; i < into.size(); ++i) {
    T id;  // files are not aligned
    std::memcpy(&id, bytes.data() + i * sizeof(T), sizeof(T));
    const auto value = static_cast<std::int64_t>(id);
    if (value < 0 || value >= vocab_size)
      return BadToken{position + static_cast<std::int64_t>(i), value};
    into[i] = static_cast<std::int32_t>(value);
  }
  return std::nullopt;
}

std::optional<BadToken> unpack(TokenDtype dtype, std::span<const std::byte> bytes,
                               std::int64_t position, std::int64_t vocab_size,
                               std::span<std::int32_t> into) {
  const auto as = [&]<class T>(T) { return unpack_as<T>(bytes, position, vocab_size, into); };
  switch (dtype) {
    case TokenDtype::u8:
      return as(std::uint8_t{});
    case TokenDtype::i8:
      return as(std::int8_t{});
    case TokenDtype::i16:
      return as(std::int16_t{});
    case TokenDtype::i32:
      return as(std::int32_t{});
    case TokenDtype::i64:
      return as(std::int64_t{});
    case TokenDtype::u16:
      return as(std::uint16_t{});
    case TokenDtype::u32:
      return as(std::uint32_t{});
  }
  fail_internal("tokens of every type can be read");
}
}  // namespace

TokenDtypeFacts facts_of(TokenDtype dtype) {
  switch (dtype) {
    case TokenDtype::u8:
      return {"u8", 1};
    case TokenDtype::i8:
      return {"i8", 1};
    case TokenDtype::i16:
      return {"i16", 2};
    case TokenDtype::i32:
      return {"i32", 4};
    case TokenDtype::i64:
      return {"i64", 8};
    case TokenDtype::u16:
      return {"u16", 2};
    case TokenDtype::u32:
      return {"u32", 4};
  }
  fail_internal("every type of tokens has a size");
}

TokenDtype dtype_for(std::int64_t vocab_size) {
  constexpr std::int64_t below = 65'500;
  return vocab_size < below ? TokenDtype::u16 : TokenDtype::i32;
}

std::optional<BadToken> read_tokens(const DataFile& file, std::int64_t byte, TokenDtype dtype,
                                    std::int64_t position, std::int64_t vocab_size,
                                    std::span<std::int32_t> into) {
  std::array<std::byte, 16384> buffer;
  const auto size = static_cast<std::size_t>(facts_of(dtype).size_bytes);
  while (!into.empty()) {
    const auto part = into.first(std::min(into.size(), buffer.size() / size));
    const auto bytes = std::span(buffer).first(part.size() * size);
    file.read(byte, bytes);
    if (const auto bad = unpack(dtype, bytes, position, vocab_size, part)) return bad;
    byte += static_cast<std::int64_t>(bytes.size());
    position += static_cast<std::int64_t>(part.size());
    into = into.subspan(part.size());
  }
  return std::nullopt;
}

}  // namespace fourfold::data
