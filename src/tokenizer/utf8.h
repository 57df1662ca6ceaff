// Code points in and out of UTF-8 text, strictly. Not Unicode: no normal forms, no character
// classes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold::tokenizer {

struct CodePoint {
  char32_t value = 0;
  std::size_t num_bytes = 0;
};

/// The first code point of `text`; nothing when the text is empty or does not begin with
/// well-formed UTF-8 (Unicode 15.0, table 3-7: no overlong forms, no surrogates, nothing above
/// U+10FFFF, no sequence cut short).
std::optional<CodePoint> first_code_point(std::string_view text);

/// How many bytes of `text` are well-formed characters, from its begin; ASCII goes by eights.
std::size_t well_formed_prefix(std::string_view text);

/// Requires a code point that UTF-8 can hold: at most U+10FFFF and no surrogate.
void append_utf8(std::string& text, char32_t code_point);

/// "\"e\" (U+0065)": for messages; control characters are escaped.
std::string describe_character(char32_t code_point);

/// Turns bytes that arrive one by one into whole characters: a sequence cut short is held back
/// until the rest comes, and bytes that cannot belong to any character become U+FFFD. What it
/// returns is always well-formed.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  /// What was held back, which can no longer become a character.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace fourfold::tokenizer
