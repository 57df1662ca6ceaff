// How a file holds documents, as far as its bytes and its name say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold::data {

/// A text is one document; JSON lines hold one in each line.
enum class TextForm : std::uint8_t { text, json_lines };

/// The mark that some programs put before a text in UTF-8.
inline constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// What a file holds that begins so. It is JSON lines if its name says that (".jsonl", ".ndjson"),
/// or if its first line, or else its second one, is an object: whole lines are looked at, not their
/// first letters. Nothing: more of the file must be read to tell. `is_whole`: that is all of it.
/// Errors: UserError(bad_data) for arrays of JSON, for objects that do not stand in a line each or
/// have commas between them, and for JSON lines after a line that is none: all would be read as one
/// document with all marks of JSON in it. A file whose name ends in ".txt" is taken as that.
std::optional<TextForm> form_of_text(std::string_view beginning, bool is_whole,
                                     const std::string& file);

}  // namespace fourfold::data
