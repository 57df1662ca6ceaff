// The text in a line of JSON, and where a value of JSON ends in a text that may hold other things.
// Not a reader of whole values: base/json.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold::data {

/// Where a value ends that begins at a place of a text.
struct JsonEnd {
  enum class State : std::uint8_t { whole, cut_off, no_json };
  State state = State::no_json;
  std::size_t end = 0;  // of a whole value
};

/// Walks over the value at `at`, which is no blank. More is let pass than JSON allows: numbers of
/// any size, NaN and infinities as Python writes them, the same key twice, any bytes in strings.
JsonEnd end_of_json(std::string_view text, std::size_t at);

/// The text in the member `field` of a line, which is an object. Other members may hold anything
/// that end_of_json lets pass. `place` names the line in messages. Errors: UserError(bad_data).
std::string text_of_line(std::string_view line, const std::string& place, std::string_view field);

/// The place from `at` on that is no blank: space, tab, carriage return or line break.
std::size_t skip_blanks(std::string_view text, std::size_t at);

}  // namespace fourfold::data
