// Rows of a label and a text as aligned lines, or in a frame with a title.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/rows.h"

namespace fourfold::screen {

/// Aligned lines, texts wrapped between words to the columns (0: no terminal) or to 100, whichever
/// is less.
std::string to_text(const Rows& rows, int columns = 80);

/// The text wrapped in the same way, for a line whose first `indent` columns are taken; further
/// lines begin with as many blanks. The last line has no line end.
std::string wrapped(std::string_view text, std::size_t indent, int columns);

/// The frame, of at most so many columns where its texts can be broken between words, drawn with
/// lines of Unicode or with ASCII. The last line has no line end.
std::string box(std::string_view title, const Rows& rows, int columns, bool is_unicode);

}  // namespace fourfold::screen
