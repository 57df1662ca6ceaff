// Text of strangers in HTML and SVG. Not a template language.
#pragma once

#include <string>
#include <string_view>

namespace fourfold::report {

/// For content and for attributes in double quotes: & < > " ' become entities; what is not UTF-8,
/// and control characters other than line ends and tabs, become U+FFFD.
std::string escaped(std::string_view text);

}  // namespace fourfold::report
