#include "screen/rows.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/text.h"

namespace fourfold::screen {
namespace {

constexpr std::size_t label_columns = 12;
/// Longer lines are hard to follow, shorter ones break every figure.
constexpr int most_columns = 100, least_columns = 40;

/// Words of a text, a number with the word after it ("2.36 GiB", "16 on").
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool is_number = false;
  for (const std::string& word : split(text, ' ')) {
    if (is_number)
      words.back() += " " + word;
    else
      words.push_back(word);
    is_number = !is_number && !word.empty() && word[0] >= '0' && word[0] <= '9' &&
                word.find(',') != word.size() - 1;
  }
  return words;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent, int columns) {
  const auto width = static_cast<std::size_t>(
      columns == 0 ? most_columns : std::clamp(columns, least_columns, most_columns));
  std::string result;
  std::size_t column = indent;
  for (const std::string& word : words_of(text)) {
    const bool is_first = column == indent;
    if (!is_first && column + 1 + word.size() > width) {
      result += format("\n{:{}}", "", indent);
      column = indent;
    } else if (!is_first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string to_text(const Rows& rows, int columns) {
  std::string text;
  for (const Row& row : rows)
    text += styled(Style::dim, format("{:<{}}", row.label, label_columns)) +
            wrapped(without_controls(row.text), label_columns, columns) + '\n';
  return text;
}

namespace {

/// The entries on lines of at most so many columns; what does not fit goes on below its text.
Rows lines_of(const Rows& entries, std::size_t label_width, int columns) {
  Rows lines;
  const int frame = static_cast<int>(label_width) + 6;
  for (const Row& entry : entries) {
    std::string label = entry.label;
    for (std::string& line : split(wrapped(entry.text, 0, columns - frame), '\n'))
      lines.push_back({std::exchange(label, ""), std::move(line)});
  }
  return lines;
}

}  // namespace

std::string box(std::string_view title, const Rows& all, int columns, bool is_unicode) {
  std::size_t label_width = 0, text_width = 0;
  for (const Row& entry : all) label_width = std::max(label_width, columns_of(entry.label));
  const Rows entries = lines_of(all, label_width, columns);
  for (const Row& entry : entries) text_width = std::max(text_width, columns_of(entry.text));
  const std::size_t inner = label_width + 2 + text_width;
  const auto line = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += is_unicode ? "─" : "-";
    return text;
  };
  const std::string side = is_unicode ? "│" : "|";
  std::string text = format("{} {} {}{}\n", is_unicode ? "┌" : "+", styled(Style::bold, title),
                            line(inner - columns_of(title)), is_unicode ? "┐" : "+");
  for (const Row& entry : entries)
    text += format("{} {:<{}}  {:<{}} {}\n", side, entry.label, label_width, entry.text, text_width,
                   side);
  return text + format("{}{}{}", is_unicode ? "└" : "+", line(inner + 2), is_unicode ? "┘" : "+");
}

}  // namespace fourfold::screen
