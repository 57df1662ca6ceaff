// What a parameter of a test is, in words, for the list of tests: ctest knows neither brackets nor
// line ends.
#pragma once

#include <cctype>
#include <ostream>
#include <string_view>

namespace fourfold::test {

/// The letters, numbers, points and minus signs of a text; what stands between them is a space.
inline void print_words(std::string_view text, std::ostream& out) {
  bool has_gap = false, has_begun = false;
  for (const char byte : text) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(byte)) || byte == '_' || byte == '.' || byte == '-';
    if (is_plain) out << (has_gap && has_begun ? " " : "") << byte;
    has_begun = has_begun || is_plain, has_gap = !is_plain;
  }
}

}  // namespace fourfold::test
