#include "tokenizer/normal_form.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

constexpr char32_t num_code_points = 0x110000;

struct FreedBytes {
  void operator()(utf8proc_uint8_t* bytes) const { std::free(bytes); }
};

std::string composed(std::string_view text) {
  utf8proc_uint8_t* made = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, FreedBytes> owner(made);
  require(size >= 0, "utf8proc composes well-formed text");
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

/// True if it is its own normal form and never becomes one character with what stands before it
/// (NFC_Quick_Check=Yes of Unicode Standard Annex 15, and a starter).
bool stays(char32_t code_point) {
  const auto* facts = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  if (facts->combining_class != 0) return false;
  constexpr std::uint16_t none = UINT16_MAX, second = 0x8000;
  if (facts->comb_index != none && facts->comb_index >= second) return false;
  // Vowels and final consonants of Hangul, which utf8proc joins by arithmetic.
  if (code_point >= 0x1161 && code_point <= 0x11FF) return false;
  if (facts->decomp_seqindex == none) return true;
  std::string text;
  append_utf8(text, code_point);
  return composed(text) == text;
}

const std::vector<bool>& staying() {
  static const std::vector<bool> all = [] {
    std::vector<bool> result(num_code_points);
    for (char32_t code_point = 0; code_point < num_code_points; ++code_point) {
      const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
      result[code_point] = !is_surrogate && stays(code_point);
    }
    return result;
  }();
  return all;
}

/// How many bytes are ASCII, by eights.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t eight = 0; at + sizeof eight <= text.size(); at += sizeof eight) {
    std::memcpy(&eight, text.data() + at, sizeof eight);
    if ((eight & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

std::string why_no_normal_form() {
  return {};
}

std::string normal_form_c(std::string_view text) {
  const std::vector<bool>& stays_alone = staying();
  std::string result;
  result.reserve(text.size());
  std::size_t written = 0;  // all before is in the result
  std::size_t last = 0;     // where the last character that stays begins
  bool is_open = false;     // a character that does not stay has come after it
  const auto close = [&](std::size_t end) {
    if (!is_open) return;
    result.append(text, written, last - written);
    result += composed(text.substr(last, end - last));
    written = end;
    is_open = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t ascii = ascii_prefix(text.substr(at)); ascii > 0) {
      close(at);
      at += ascii;
      last = at - 1;
      continue;
    }
    const auto found = first_code_point(text.substr(at));
    if (!found || stays_alone[found->value]) {
      close(at);
      last = at;
      at += found ? found->num_bytes : 1;
      if (!found) last = at;  // nothing is joined with what is no character
      continue;
    }
    is_open = true;
    at += found->num_bytes;
  }
  close(text.size());
  result.append(text, written);
  return result;
}

}  // namespace fourfold::tokenizer
