#include "tokenizer/byte_letters.h"

#include <array>
#include <cstdint>

#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

constexpr std::size_t num_letters = 0x144;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_letters() {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte)
    letters[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  return letters;
}
constexpr std::array<char32_t, 256> letters_of_bytes = make_letters();

/// By letter; -1 for characters that are none.
constexpr std::array<std::int16_t, num_letters> make_bytes() {
  std::array<std::int16_t, num_letters> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes[letters_of_bytes[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}
constexpr std::array<std::int16_t, num_letters> bytes_of_letters = make_bytes();

}  // namespace

std::string to_byte_letters(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes)
    append_utf8(letters, letters_of_bytes[static_cast<unsigned char>(byte)]);
  return letters;
}

std::optional<std::string> from_byte_letters(std::string_view letters) {
  std::string bytes;
  for (std::size_t at = 0; at < letters.size();) {
    const auto found = first_code_point(letters.substr(at));
    if (!found || found->value >= num_letters || bytes_of_letters[found->value] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(bytes_of_letters[found->value]));
    at += found->num_bytes;
  }
  return bytes;
}

}  // namespace fourfold::tokenizer
