#include "tokenizer/gpt2_chunks.h"

#include <algorithm>
#include <iterator>

#include "tokenizer/unicode_ranges.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

struct Character {
  CharacterClass kind = CharacterClass::other;
  std::size_t num_bytes = 1;
};

/// The first character of a text that is not empty.
Character first_character(std::string_view text, const std::vector<CharacterClass>& classes) {
  const auto byte = static_cast<unsigned char>(text.front());
  if (byte < 0x80) return {classes[byte], 1};
  const auto found = first_code_point(text);
  if (!found) return {};
  return {classes[found->value], found->num_bytes};
}

/// Bytes of 's 't 're 've 'm 'll 'd at the begin; 0 when there is none.
std::size_t contraction(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  if (text[1] == 's' || text[1] == 't' || text[1] == 'm' || text[1] == 'd') return 2;
  const std::string_view two = text.substr(1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

/// The same in letters of either case; U+017F is an s too.
std::size_t contraction_of_any_case(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto small = [&](std::size_t at) {
    const char c = at < text.size() ? text[at] : '\0';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  constexpr std::string_view long_s = "\u017F";
  if (text.substr(1).starts_with(long_s)) return 1 + long_s.size();
  const char first = small(1), second = small(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const bool is_long =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return is_long ? 3 : 0;
}

/// The end of the characters of one class that stand at a place.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind,
                       const std::vector<CharacterClass>& classes) {
  while (at < text.size()) {
    const Character next = first_character(text.substr(at), classes);
    if (next.kind != kind) break;
    at += next.num_bytes;
  }
  return at;
}

bool is_line_end(char byte) {
  return byte == '\r' || byte == '\n';
}

/// A text that begins with white space, which no letter or sign follows at once.
std::size_t chunk_of_spaces(std::string_view text, const std::vector<CharacterClass>& classes) {
  std::size_t end = 0, last = 0, after_line = 0;
  while (end < text.size()) {
    const Character next = first_character(text.substr(end), classes);
    if (next.kind != CharacterClass::space) break;
    last = end;
    end += next.num_bytes;
    if (is_line_end(text[last])) after_line = end;
  }
  if (after_line > 0) return after_line;
  return end < text.size() && last > 0 ? last : end;
}

}  // namespace

std::size_t first_gpt4_chunk(std::string_view text, int most_digits) {
  using enum CharacterClass;
  if (text.empty()) return 0;
  if (const std::size_t size = contraction_of_any_case(text); size > 0) return size;
  const auto& classes = character_classes();
  const Character first = first_character(text, classes);
  if (first.kind == letter) return end_of_run(text, first.num_bytes, letter, classes);
  if (first.kind == number) {
    std::size_t end = first.num_bytes;
    for (int count = 1; count < most_digits && end < text.size(); ++count) {
      const Character next = first_character(text.substr(end), classes);
      if (next.kind != number) break;
      end += next.num_bytes;
    }
    return end;
  }
  const std::size_t second = first.num_bytes;
  const CharacterClass after =
      second < text.size() ? first_character(text.substr(second), classes).kind : space;
  if (after == letter && !is_line_end(text[0])) return end_of_run(text, second, letter, classes);
  if (first.kind == other || (text[0] == ' ' && after == other)) {
    std::size_t end = end_of_run(text, second, other, classes);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  return chunk_of_spaces(text, classes);
}

std::size_t last_gpt2_cut(std::string_view text) {
  using enum CharacterClass;
  const auto& classes = character_classes();
  const auto begins_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
  };
  CharacterClass behind = other;
  std::size_t cut = 0;  // where the character after begins; 0: it may be cut short
  for (std::size_t at = text.size(); at-- > 0;) {
    if (!begins_character(at)) continue;
    const auto found = first_code_point(text.substr(at));
    if (!found) {  // a place of bytes that are no text is not looked at
      cut = 0;
      continue;
    }
    const CharacterClass kind = classes[found->value];
    const bool is_beside = cut == at + found->num_bytes;
    const bool ends = kind == letter || kind == number
                          ? behind != kind
                          : kind == other && (behind == space || behind == number);
    if (cut > 0 && is_beside && ends) return cut;
    cut = at;
    behind = kind;
  }
  return 0;
}

std::size_t first_gpt2_chunk(std::string_view text) {
  if (text.empty()) return 0;
  if (const std::size_t size = contraction(text); size > 0) return size;
  const auto& classes = character_classes();
  std::size_t at = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass kind = first_character(text.substr(at), classes).kind;
  if (kind == CharacterClass::space) at = 0;
  std::size_t last = at;  // where the last character of the run begins
  while (at < text.size()) {
    const Character next = first_character(text.substr(at), classes);
    if (next.kind != kind) break;
    last = at;
    at += next.num_bytes;
  }
  // The last character of white space before something else goes with what follows.
  const bool gives_last = kind == CharacterClass::space && at < text.size() && last > 0;
  return gives_last ? last : at;
}

namespace {

std::vector<CharacterClass> make_classes() {
  std::vector<CharacterClass> classes(0x110000);
  for (std::size_t i = 0; i < std::size(unicode_ranges); ++i) {
    const std::size_t begin = unicode_ranges[i] / 4;
    const bool is_last = i + 1 == std::size(unicode_ranges);
    const std::size_t end = is_last ? classes.size() : unicode_ranges[i + 1] / 4;
    std::fill(classes.begin() + static_cast<std::ptrdiff_t>(begin),
              classes.begin() + static_cast<std::ptrdiff_t>(end),
              static_cast<CharacterClass>(unicode_ranges[i] % 4));
  }
  return classes;
}

}  // namespace

const std::vector<CharacterClass>& character_classes() {
  static const std::vector<CharacterClass> classes = make_classes();
  return classes;
}

}  // namespace fourfold::tokenizer
