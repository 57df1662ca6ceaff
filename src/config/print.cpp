#include "config/print.h"

#include <algorithm>
#include <vector>

#include "base/diagnostic.h"
#include "base/format.h"
#include "config/layout.h"
#include "config/schema.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

constexpr std::string_view before_origin = "  # ";
constexpr std::size_t most_aligned = 48;  // a longer line has its origin right behind it

struct Line {
  std::string text, origin;
};

std::vector<Line> lines_of(const Config& config) {
  Config copy = config;  // places hand out references
  std::vector<Line> lines;
  std::string_view before;
  for (const Key& key : keys()) {
    for (std::string& opening : opening_lines(key.path, before))
      lines.push_back({std::move(opening), ""});
    const std::string value = value_text(key, copy);
    const Origin* origin = config.origins.find(key.path);
    lines.push_back({indent_of(key.path) + format("{}: {}", leaf_of(key.path), value),
                     origin != nullptr && origin->value == value ? origin->place : "derived"});
    before = key.path;
  }
  return lines;
}

}  // namespace

std::string resolved_yaml(const Config& config) {
  std::string text = "# Every setting of a run, defaults included.\n";
  for (const Line& line : lines_of(config)) text += line.text + "\n";
  return text;
}

std::string shown_yaml(const Config& config) {
  std::string text =
      "# Every setting of a run, defaults included, and where its value comes from.\n";
  const std::vector<Line> lines = lines_of(config);
  std::size_t width = 0;
  for (const Line& line : lines)
    if (line.text.size() <= most_aligned) width = std::max(width, line.text.size());
  for (const Line& line : lines) {
    text += line.text;
    if (!line.origin.empty()) {
      text.append(width - std::min(width, line.text.size()), ' ');
      text += format("{}{}", before_origin, line.origin);
    }
    text += "\n";
  }
  return text;
}

void restore_origins(Config& config, const std::string& file, std::string_view text) {
  for (std::size_t number = 1;
       number <= 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
       ++number) {
    const std::string_view line = line_of(text, number);
    const auto comment = line.rfind(before_origin);
    if (comment == line.npos) continue;
    const std::string here = format("{}:{}", file, number);
    for (const Key& key : keys()) {
      const Origin* origin = config.origins.find(key.path);
      if (origin == nullptr || origin->place != here) continue;
      config.origins.set(key.path,
                         {std::string(line.substr(comment + before_origin.size())), origin->value});
      break;
    }
  }
}

}  // namespace fourfold::config
