#include "screen/rows.h"

#include <algorithm>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/text.h"

namespace fourfold::screen {
namespace {

constexpr std::size_t label_width = 12;
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
    text += styled(Style::dim, format("{:<{}}", row.label, label_width)) +
            wrapped(without_controls(row.text), label_width, columns) + '\n';
  return text;
}

}  // namespace fourfold::screen
