#include "screen/box.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "screen/rows.h"

namespace fourfold::screen {
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
