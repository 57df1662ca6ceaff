// The normal form C of Unicode: characters and their accents as one code point where there is one.
// The wrapper of utf8proc.
#pragma once

#include <string>
#include <string_view>

namespace fourfold::tokenizer {

/// Empty: there is one. Else why there is none.
std::string why_no_normal_form();

/// Bytes that are not UTF-8 stay as they are. Requires: why_no_normal_form() is empty.
std::string normal_form_c(std::string_view text);

}  // namespace fourfold::tokenizer
