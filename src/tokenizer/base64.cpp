#include "tokenizer/base64.h"

#include <array>
#include <cstdint>

namespace fourfold::tokenizer {
namespace {

constexpr std::string_view letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::uint32_t bits_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

/// The six bits of each letter; 64 for all other bytes.
constexpr std::array<std::uint8_t, 256> make_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(64);
  for (std::size_t i = 0; i < letters.size(); ++i)
    values[static_cast<unsigned char>(letters[i])] = static_cast<std::uint8_t>(i);
  return values;
}
constexpr std::array<std::uint8_t, 256> values = make_values();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::uint32_t three =
        bits_at(bytes, at) << 16 | bits_at(bytes, at + 1) << 8 | bits_at(bytes, at + 2);
    for (const int shift : {18, 12, 6, 0}) text.push_back(letters[(three >> shift) & 63U]);
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  for (std::size_t i = 0; i < padding; ++i) text[text.size() - 1 - i] = '=';
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  const std::string_view data = text.substr(0, text.size() - padding);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char letter : data) {
    const std::uint32_t value = values[static_cast<unsigned char>(letter)];
    if (value == 64) return std::nullopt;
    bits = (bits << 6 | value) & 0xFFFFU;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<char>(bits >> held & 0xFFU));
  }
  const bool has_stray_bits = (bits & ((1U << held) - 1)) != 0;
  if (has_stray_bits) return std::nullopt;
  return bytes;
}

}  // namespace fourfold::tokenizer
