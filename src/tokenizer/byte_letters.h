// The printable characters that stand for bytes in the files of GPT-2's tokenizer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fourfold::tokenizer {

/// Printable bytes of Latin-1 (0x21 to 0x7E, 0xA1 to 0xAC, 0xAE to 0xFF) stand for themselves; the
/// other 68 in their order are U+0100, U+0101 and so on (OpenAI gpt-2, bytes_to_unicode). So a
/// space is "\u0120".
std::string to_byte_letters(std::string_view bytes);
/// Nothing when a character stands for no byte, or the text is not UTF-8.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace fourfold::tokenizer
