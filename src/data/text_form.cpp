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

/// `lines`: a command that prints the objects of the file, a line each.
TextForm refuse_unless_named_text(const std::string& file, const char* what,
                                  const std::string& lines) {
  if (is_named_text(file)) return TextForm::text;
  throw UserError(
      ExitCode::bad_data,
      format("{}: {}, expected a text, or JSON with an object in each line; write the lines with "
             "{} > LINES.jsonl, or end its name in .txt to read it as a text",
             file, what, lines));
}

std::string by_jq(const char* filter, const std::string& file) {
  return format("jq -c '{}' {}", filter, file);
}

/// Values with a comma after each are an array that lacks its brackets. The last comma may be there
/// or not.
TextForm refuse_commas(const std::string& file) {
  return refuse_unless_named_text(
      file, "has values of JSON with commas between them",
      format("(echo '['; sed '$s/,[[:space:]]*$//' {}; echo ']') | jq -c '.[]'", file));
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

/// True where a value that ended before `at` is followed by a comma that ends the line, and then by
/// another value that begins with `opening`, or by nothing. `more`: it may be.
bool ends_in_comma(std::string_view text, std::size_t at, char opening, bool is_whole, bool& more) {
  at = std::min(text.find_first_not_of(" \t\r", at), text.size());
  if (at == text.size() && !is_whole) more = true;
  if (at == text.size() || text[at] != ',') return false;
  const std::size_t line_end = std::min(text.find_first_not_of(" \t\r", at + 1), text.size());
  if (line_end < text.size() && text[line_end] != '\n') return false;
  const std::size_t next = skip_blanks(text, line_end);
  if (next == text.size()) {
    if (!is_whole) more = true;
    return is_whole;
  }
  return text[next] == opening && end_of_json(text, next).state != State::no_json;
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
    return refuse_unless_named_text(file, "is an object of JSON in several lines",
                                    by_jq(".", file));
  if (after < text.size() && text[after] == '{' && end_of_json(text, after).state == State::whole)
    return refuse_unless_named_text(file, "has several objects of JSON in a line",
                                    by_jq(".", file));
  const bool has_commas = ends_in_comma(text, object.end, '{', is_whole, more);
  if (more) return std::nullopt;
  if (has_commas) return refuse_commas(file);
  return look_at_second_line(text, at, is_whole);
}

/// True for a value that may hold a text: no number, and no word such as null.
bool may_hold_text(char opening) {
  return opening == '{' || opening == '[' || opening == '"';
}

/// A whole array is refused where it is all that the file has, or other arrays follow it in lines
/// of their own: a text may begin with one ("[1] Knuth", "[["a", 1]].each"). One that is cut off or
/// damaged is refused by its first two items.
std::optional<TextForm> form_of_array(std::string_view text, std::size_t at, bool is_whole,
                                      const std::string& file) {
  const std::size_t item = skip_blanks(text, at + 1);
  const auto refuse = [&] {
    const char* const filter = text[item] == '"' ? ".[] | {text: .}" : ".[]";
    return refuse_unless_named_text(file, "is an array of JSON", by_jq(filter, file));
  };
  if (item == text.size() && !is_whole) return std::nullopt;
  if (item == text.size() || text[item] == ']') return TextForm::text;
  const JsonEnd array = end_of_json(text, at);
  if (array.state == State::whole) {
    if (text.substr(at + 1, array.end - at - 1).find_first_of("{[\"") == std::string_view::npos)
      return TextForm::text;
    const std::size_t after = skip_blanks(text, array.end);
    if (after == text.size()) return is_whole ? std::optional(refuse()) : std::nullopt;
    bool more = false;
    const bool has_commas = ends_in_comma(text, array.end, '[', is_whole, more);
    if (more) return std::nullopt;
    if (has_commas) return refuse_commas(file);
    const bool is_new_line = text.substr(array.end, after - array.end).find('\n') != text.npos;
    const bool is_array = text[after] == '[' && end_of_json(text, after).state == State::whole;
    return is_new_line && is_array ? refuse() : TextForm::text;
  }
  const JsonEnd first = end_of_json(text, item);
  if (first.state == State::cut_off && !is_whole) return std::nullopt;
  if (first.state != State::whole) return TextForm::text;
  const std::size_t comma = skip_blanks(text, first.end);
  const std::size_t next = comma == text.size() ? comma : skip_blanks(text, comma + 1);
  if (next == text.size() && !is_whole) return std::nullopt;
  if (next == text.size() || text[comma] != ',' || !may_hold_text(text[next]))
    return TextForm::text;
  return end_of_json(text, next).state == State::no_json ? TextForm::text : refuse();
}

/// The first line begins as no object does. JSON lines follow it where the second one is an object
/// and the first another value of JSON, or where all other lines are objects, two at least.
std::optional<TextForm> form_of_other(std::string_view text, std::size_t at, bool is_whole,
                                      const std::string& file) {
  const std::size_t line_end = text.find('\n', at);
  if (line_end == text.npos) return TextForm::text;
  std::size_t next = skip_blanks(text, line_end);
  if (next == text.size() || text[next] != '{') return TextForm::text;
  bool more = false;
  std::int64_t objects = 0;
  while (next < text.size()) {
    const std::size_t key = skip_blanks(text, next + 1);
    const auto end = text[next] == '{' && key < text.size() && text[key] == '"'
                         ? end_of_object_line(text, next, is_whole, more)
                         : std::nullopt;
    if (more && objects == 0) return std::nullopt;
    if (more) break;  // cut off at the end of what is known
    if (!end) break;
    ++objects;
    next = skip_blanks(text, *end);
  }
  if (objects == 0) return TextForm::text;
  const JsonEnd first = end_of_json(text, at);
  const bool is_json = first.state == State::whole && first.end <= line_end &&
                       skip_blanks(text, first.end) >= line_end;
  const bool are_all = more || next == text.size();
  if (!is_json && (!are_all || objects < 2)) return TextForm::text;
  return refuse_unless_named_text(file, "has lines of JSON after a first line that is no object",
                                  format("tail -n +2 {} | jq -c '.'", file));
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
  if (beginning[at] == '[')
    if (const auto form = form_of_array(beginning, at, is_whole, file); form != TextForm::text)
      return form;
  return form_of_other(beginning, at, is_whole, file);
}

}  // namespace fourfold::data
