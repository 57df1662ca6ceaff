#include "base/diagnostic.h"

#include <algorithm>

#include "base/format.h"
#include "base/styled_text.h"

namespace fourfold {
namespace {

constexpr std::size_t most_shown = 50;      // problems
constexpr std::size_t most_columns = 100;   // of a source line
constexpr std::size_t columns_before = 40;  // kept before the place when a line is cut

bool continues_a_letter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Letters as a terminal counts them, close enough: UTF-8 bytes that begin one.
std::size_t count_letters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !continues_a_letter(byte); }));
}

/// Safe for a terminal, in one line.
std::string printable(std::string_view text) {
  std::string result = without_controls(text);
  std::replace(result.begin(), result.end(), '\n', '?');
  return result;
}

/// The part of the line that is shown, and where the problem's place is in it (bytes before it).
struct Excerpt {
  std::string_view text;
  std::size_t before;
};

Excerpt excerpt(const Diagnostic& problem) {
  const std::string_view line = problem.source_line;
  const std::size_t place = std::min(problem.column == 0 ? 0 : problem.column - 1, line.size());
  std::size_t first = place > most_columns - columns_before ? place - columns_before : 0;
  while (first > 0 && first < line.size() && continues_a_letter(line[first])) --first;
  std::size_t end = std::min(line.size(), first + most_columns);
  while (end < line.size() && continues_a_letter(line[end])) ++end;
  return {line.substr(first, end - first), place - first};
}

std::string heading(const Diagnostic& problem) {
  const std::string_view line = problem.source_line;
  const std::size_t bytes_before = problem.column == 0 ? 0 : problem.column - 1;
  const std::size_t column = 1 + count_letters(line.substr(0, std::min(bytes_before, line.size())));
  const std::string file = printable(problem.file);
  if (problem.line == 0) return format("{}: error: {}", file, printable(problem.message));
  return format("{}:{}:{}: error: {}", file, problem.line, column, printable(problem.message));
}

/// Heading, source line and hint.
std::string body(const Diagnostic& problem) {
  std::string result = heading(problem);
  const std::string hint = printable(problem.hint);
  if (problem.source_line.empty()) return hint.empty() ? result : result + "\n      " + hint;
  const auto [text, before] = excerpt(problem);
  const std::string number = problem.line == 0 ? "" : format("{}", problem.line);
  result += format("\n{:>5} | {}", number, printable(text));
  const std::size_t shift = count_letters(text.substr(0, before));
  const std::size_t width = std::max<std::size_t>(
      1, count_letters(text.substr(before, std::max<std::size_t>(1, problem.width))));
  result += format("\n      | {}^{}", std::string(shift, ' '), std::string(width - 1, '~'));
  if (hint.empty()) return result;
  const bool fits = shift + width + hint.size() <= most_columns;
  return result + (fits ? " " : "\n      ") + hint;
}

}  // namespace

std::string print(const Diagnostic& problem) {
  std::string result = body(problem);
  for (const std::string& note : problem.notes) result += "\n      " + printable(note);
  return result;
}

void throw_together(std::span<const Diagnostic> problems, ExitCode code) {
  require(!problems.empty(), "an error has at least one problem");
  std::string text;
  for (std::size_t i = 0; i < std::min(problems.size(), most_shown); ++i)
    text += (i == 0 ? "" : "\n") + print(problems[i]);
  if (problems.size() > most_shown)
    text += format("\n... and {} more", problems.size() - most_shown);
  throw UserError(code, text);
}

std::string_view line_of(std::string_view text, std::size_t line) {
  for (std::size_t number = 1; number < line; ++number) {
    const auto newline = text.find('\n');
    if (newline == text.npos) return {};
    text.remove_prefix(newline + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace fourfold
