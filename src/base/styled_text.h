// Text with colours, for a terminal: made with its styles, and stripped of them where they are not
// wanted. Not a terminal: cli/terminal.h knows whether there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fourfold {

enum class Style : std::uint8_t { bold, dim, red, green, yellow };

/// The text between the SGR sequence of the style (ECMA-48) and the one that ends it.
std::string styled(Style style, std::string_view text);
/// The text without its SGR sequences.
std::string without_styles(std::string_view text);

/// A text that somebody else wrote, such as a file or its name, made safe for a terminal: control
/// characters (C0, DEL, and C1 as UTF-8) become '?', but for newlines; a tab becomes a space.
std::string without_controls(std::string_view text);

/// The same, but for styles as `styled` makes them, which stay.
std::string without_other_controls(std::string_view text);

/// Columns that a terminal shows it in: styles none, any other letter one. The text is UTF-8.
std::size_t columns_of(std::string_view text);
/// The longest beginning of at most so many columns; whatever style is on ends with it.
std::string first_columns(std::string_view text, std::size_t columns);

}  // namespace fourfold
