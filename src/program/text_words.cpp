#include "program/text_words.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::program {
namespace {

bool is_name_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') ||
         std::string_view("_.#/-").find(letter) != std::string_view::npos;
}

/// What stands before a '#' at the start of a word, without spaces at either end.
std::string_view content(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i)
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ')) line = line.substr(0, i);
  while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return line;
}

/// The word as an error shows it: printable and not too long.
std::string shown(std::string_view word) {
  std::string text;
  for (const char letter : word.substr(0, 60))
    text += letter >= ' ' && letter <= '~' ? letter : '?';
  return word.size() > 60 ? text + "..." : text;
}

}  // namespace

void fail_text(std::string_view read, std::string_view expected) {
  const std::string what = read.empty() ? "the line ends" : format("read '{}'", shown(read));
  throw UserError(ExitCode::bad_config, format("{}, expected {}", what, expected));
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_letter) &&
         std::string_view(".#/-").find(text.front()) == std::string_view::npos;
}

std::int64_t parse_number(std::string_view text, std::string_view expected) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail_text(text, expected);
  return value;
}

std::size_t parse_index(std::string_view text, std::size_t end, std::string_view expected) {
  const std::int64_t value = parse_number(text, expected);
  if (value < 0 || static_cast<std::size_t>(value) >= end)
    fail_text(text, format("{} below {}", expected, end));
  return static_cast<std::size_t>(value);
}

Words::Words(std::string_view line) : rest_(line) {
  skip(0);
}

void Words::skip(std::size_t count) {
  rest_.remove_prefix(count);
  while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
}

std::string_view Words::peek() const {
  return rest_.substr(0, rest_.find(' '));
}

std::string_view Words::next(std::string_view expected) {
  const std::string_view word = peek();
  if (word.empty()) fail_text(word, expected);
  skip(word.size());
  return word;
}

bool Words::accept(std::string_view word) {
  if (peek() != word) return false;
  skip(word.size());
  return true;
}

void Words::expect(std::string_view word) {
  if (!accept(word)) fail_text(peek(), format("'{}'", word));
}

std::string_view Words::name(std::string_view expected) {
  const std::string_view word = next(expected);
  if (!is_name(word)) fail_text(word, expected);
  return word;
}

std::int64_t Words::number(std::string_view expected) {
  return parse_number(next(expected), expected);
}

std::string_view Words::bracketed(std::string_view expected) {
  const std::size_t close = rest_.find(']');
  if (rest_.empty() || rest_.front() != '[' || close == std::string_view::npos)
    fail_text(rest_, expected);
  const std::string_view word = rest_.substr(0, close + 1);
  skip(word.size());
  return word;
}

std::string_view Words::take_rest() {
  const std::string_view rest = rest_;
  rest_ = {};
  return rest;
}

void Words::finish() const {
  if (!done()) fail_text(rest_, "the end of the line");
}

std::string_view Lines::peek() {
  while (line_.empty() && !rest_.empty()) {
    const std::size_t end = rest_.find('\n');
    line_ = content(rest_.substr(0, end));
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++number_;
  }
  return line_;
}

std::string_view Lines::next(std::string_view expected) {
  const std::string_view line = peek();
  if (line.empty())
    throw UserError(ExitCode::bad_config, format("the text ends, expected {}", expected));
  line_ = {};
  return line;
}

}  // namespace fourfold::program
