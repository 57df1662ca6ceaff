#include "config/layout.h"

#include <algorithm>

#include "base/format.h"
#include "config/schema.h"

namespace fourfold::config {

std::vector<std::string> opening_lines(std::string_view path, std::string_view before) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (auto dot = path.find('.'); dot != path.npos; dot = path.find('.', begin)) {
    const std::string_view section = path.substr(0, dot);
    if (!is_inside(before, section)) {
      if (begin == 0) lines.emplace_back();
      lines.push_back(indent_of(section) + format("{}:", path.substr(begin, dot - begin)));
    }
    begin = dot + 1;
  }
  if (begin == 0) lines.emplace_back();
  return lines;
}

std::string indent_of(std::string_view path) {
  return std::string(2 * static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')), ' ');
}

}  // namespace fourfold::config
