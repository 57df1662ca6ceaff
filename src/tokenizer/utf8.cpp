#include "tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace fourfold::tokenizer {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

/// What a first byte announces: the number of bytes, its payload and the range of the second byte.
struct Lead {
  std::size_t num_bytes = 0;  // 0: no character begins so
  char32_t payload = 0;
  std::uint8_t second_low = 0x80, second_high = 0xBF;
};

Lead read_lead(std::uint8_t byte) {
  const char32_t bits = byte;
  if (byte < 0x80) return {1, bits};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {2, bits & 0x1FU};
  if (byte == 0xE0) return {3, bits & 0x0FU, 0xA0, 0xBF};
  if (byte == 0xED) return {3, bits & 0x0FU, 0x80, 0x9F};
  if (byte < 0xF0) return {3, bits & 0x0FU};
  if (byte == 0xF0) return {4, bits & 0x07U, 0x90, 0xBF};
  if (byte < 0xF4) return {4, bits & 0x07U};
  if (byte == 0xF4) return {4, bits & 0x07U, 0x80, 0x8F};
  return {};
}

/// The code point read so far, the bytes that it took, and the bytes that it needs in all.
struct Scan {
  char32_t value = 0;
  std::size_t num_read = 0, num_needed = 0;
  bool is_whole() const { return num_read > 0 && num_read == num_needed; }
};

/// Reads as many bytes of the first character as are well-formed.
Scan scan(std::string_view text) {
  if (text.empty()) return {};
  const Lead lead = read_lead(static_cast<std::uint8_t>(text[0]));
  Scan result{lead.payload, 1, lead.num_bytes};
  while (result.num_read < result.num_needed && result.num_read < text.size()) {
    const auto byte = static_cast<std::uint8_t>(text[result.num_read]);
    const bool second = result.num_read == 1;
    if (byte < (second ? lead.second_low : 0x80) || byte > (second ? lead.second_high : 0xBF))
      break;
    result.value = (result.value << 6) | (byte & 0x3FU);
    ++result.num_read;
  }
  return result;
}

}  // namespace

std::optional<CodePoint> first_code_point(std::string_view text) {
  const Scan found = scan(text);
  if (!found.is_whole()) return std::nullopt;
  return CodePoint{found.value, found.num_read};
}

std::size_t well_formed_prefix(std::string_view text) {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (at + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & high_bits) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Scan found = scan(text.substr(at));
    if (!found.is_whole()) break;
    at += found.num_read;
  }
  return at;
}

void append_utf8(std::string& text, char32_t code_point) {
  const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  require(code_point <= 0x10FFFF && !is_surrogate, "a code point is one that UTF-8 can hold");
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto put_tail = [&](int shift) { put(0x80U | ((code_point >> shift) & 0x3FU)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6));
    put_tail(0);
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12));
    put_tail(6);
    put_tail(0);
  } else {
    put(0xF0U | (code_point >> 18));
    put_tail(12);
    put_tail(6);
    put_tail(0);
  }
}

std::string describe_character(char32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return format("{} (U+{:04X})", Json(text).dump(), static_cast<std::uint32_t>(code_point));
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string whole;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Scan found = scan(rest);
    const bool may_grow = found.num_read < found.num_needed && found.num_read == rest.size();
    if (may_grow) break;
    whole += found.is_whole() ? rest.substr(0, found.num_read) : replacement;
    rest.remove_prefix(found.num_read);
  }
  held_ = std::string(rest);
  return whole;
}

std::string Utf8Stream::finish() {
  std::string result(held_.empty() ? std::string_view() : replacement);
  held_.clear();
  return result;
}

}  // namespace fourfold::tokenizer
