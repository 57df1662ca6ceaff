#include "data/text_form.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "data/json_line.h"

namespace fourfold::data {
namespace {

using State = JsonEnd::State;

bool is_named_text(std::string_view file) {
  for (const std::string_view packed : {".gz", ".zst"})
    if (file.ends_with(packed)) file.remove_suffix(packed.size());
  return file.ends_with(".txt");
}

TextForm refuse_unless_named_text(const std::string& file, const char* what, const char* filter) {
  if (is_named_text(file)) return TextForm::text;
  throw UserError(
      ExitCode::bad_data,
      format("{}: {}, expected a text, or JSON with an object in each line; write the lines with "
             "jq -c '{}' {} > LINES.jsonl, or end its name in .txt to read it as a text",
             file, what, filter, file));
}

/// Where a line that is one object ends; nothing where it is none. `more`: it may become one.
std::optional<std::size_t> end_of_object_line(std::string_view text, std::size_t at, bool is_whole,
                                              bool& more) {
  const JsonEnd object = end_of_json(text, at);
  if (object.state == State::cut_off && !is_whole) more = true;
  if (object.state != State::whole) return std::nullopt;
  const auto end = std::min(text.find_first_not_of(" \t\r", object.end), text.size());
  if (end == text.size() && !is_whole) more = true;
  if (end < text.size() && text[end] != '\n') return std::nullopt;
  if (text.substr(at, object.end - at).find('\n') != text.npos) return std::nullopt;
  return end;
}

/// The first line is no object: it may be damaged, and the others may be.
std::optional<TextForm> look_at_second_line(std::string_view text, std::size_t at, bool is_whole) {
  const auto end = text.find('\n', at);
  if (end == text.npos) return is_whole ? std::optional(TextForm::text) : std::nullopt;
  const std::size_t next = skip_blanks(text, end);
  if (next == text.size() && !is_whole) return std::nullopt;
  if (next == text.size() || text[next] != '{') return TextForm::text;
  bool more = false;
  const bool is_object = end_of_object_line(text, next, is_whole, more).has_value();
  if (more) return std::nullopt;
  return is_object ? TextForm::json_lines : TextForm::text;
}

std::optional<TextForm> form_of_object(std::string_view text, std::size_t at, bool is_whole,
                                       const std::string& file) {
  const std::size_t key = skip_blanks(text, at + 1);
  if (key == text.size() && !is_whole) return std::nullopt;
  if (key == text.size() || (text[key] != '"' && text[key] != '}')) return TextForm::text;
  bool more = false;
  if (end_of_object_line(text, at, is_whole, more)) {
    if (more) return std::nullopt;
    return TextForm::json_lines;
  }
  if (more) return std::nullopt;
  const JsonEnd object = end_of_json(text, at);
  if (object.state != State::whole) return look_at_second_line(text, at, is_whole);
  const std::size_t after = skip_blanks(text, object.end);
  if (after == text.size() && !is_whole) return std::nullopt;
  if (text.substr(at, object.end - at).find('\n') != text.npos &&
      (after == text.size() || text[after] == '{'))
    return refuse_unless_named_text(file, "is an object of JSON in several lines", ".");
  if (after < text.size() && text[after] == '{' && end_of_json(text, after).state == State::whole)
    return refuse_unless_named_text(file, "has several objects of JSON in a line", ".");
  return look_at_second_line(text, at, is_whole);
}

std::optional<TextForm> form_of_array(std::string_view text, std::size_t at, bool is_whole,
                                      const std::string& file) {
  const std::size_t item = skip_blanks(text, at + 1);
  if (item == text.size() && !is_whole) return std::nullopt;
  if (item == text.size() || (text[item] != '{' && text[item] != '"')) return TextForm::text;
  const JsonEnd first = end_of_json(text, item);
  if (first.state == State::cut_off && !is_whole) return std::nullopt;
  if (first.state != State::whole) return TextForm::text;
  // The next item is one of the same kind, or the array is all that the file has.
  const std::size_t after = skip_blanks(text, first.end);
  const std::size_t next = after == text.size() ? after : skip_blanks(text, after + 1);
  if (next == text.size() && !is_whole) return std::nullopt;
  if (after == text.size()) return TextForm::text;
  const bool goes_on = text[after] == ',' && next < text.size() && text[next] == text[item];
  const bool ends = text[after] == ']' && next == text.size();
  if (!goes_on && !ends) return TextForm::text;
  return refuse_unless_named_text(file, "is an array of JSON", ".[]");
}

}  // namespace

std::optional<TextForm> form_of_text(std::string_view beginning, bool is_whole,
                                     const std::string& file) {
  for (const char* ending : {".jsonl", ".ndjson"})
    if (file.find(ending) != std::string::npos) return TextForm::json_lines;
  std::size_t at = beginning.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  at = skip_blanks(beginning, at);
  if (at == beginning.size()) return is_whole ? std::optional(TextForm::text) : std::nullopt;
  if (beginning[at] == '{') return form_of_object(beginning, at, is_whole, file);
  if (beginning[at] == '[') return form_of_array(beginning, at, is_whole, file);
  return TextForm::text;
}

}  // namespace fourfold::data
