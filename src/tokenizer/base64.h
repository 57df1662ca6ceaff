// Bytes as letters, for JSON: RFC 4648, section 4, with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fourfold::tokenizer {

std::string to_base64(std::string_view bytes);
/// Nothing for a text that to_base64 does not give.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace fourfold::tokenizer
