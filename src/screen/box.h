// Rows of a label and a text in a frame with a title. Without a frame: rows.h.
#pragma once

#include <string>
#include <string_view>

#include "base/rows.h"

namespace fourfold::screen {

/// The frame, of at most so many columns where its texts can be broken between words, drawn with
/// lines of Unicode or with ASCII. The last line has no line end.
std::string box(std::string_view title, const Rows& rows, int columns, bool is_unicode);

}  // namespace fourfold::screen
