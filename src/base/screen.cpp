#include "base/screen.h"

#include <vector>

#include "base/styled_text.h"

namespace fourfold {
namespace {

constexpr std::string_view bar = " | ";

std::string join(std::span<const Cell> cells, const std::vector<bool>& shown) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!shown[i]) continue;
    if (!line.empty()) line += bar;
    line += cells[i].text;
  }
  return line;
}

/// The least important of those shown, or none where one alone is left.
std::size_t least_important(std::span<const Cell> cells, const std::vector<bool>& shown) {
  std::size_t found = cells.size(), count = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!shown[i]) continue;
    ++count;
    if (found == cells.size() || cells[i].importance < cells[found].importance) found = i;
  }
  return count > 1 ? found : cells.size();
}

}  // namespace

std::string fit(std::span<const Cell> cells, int columns) {
  std::vector<bool> shown(cells.size(), true);
  std::string line = join(cells, shown);
  while (columns > 0 && columns_of(line) > static_cast<std::size_t>(columns)) {
    const std::size_t least = least_important(cells, shown);
    if (least == cells.size()) break;
    shown[least] = false;
    line = join(cells, shown);
  }
  // Cells at the end may be blank.
  while (line.ends_with(' ') || line.ends_with(" |")) line.pop_back();
  return line;
}

}  // namespace fourfold
