#include "config/print.h"

#include <algorithm>
#include <vector>

#include "base/diagnostic.h"
#include "base/format.h"
#include "config/schema.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

constexpr std::string_view before_origin = "  # ";
constexpr std::size_t most_aligned = 48;  // a longer line has its origin right after it

const std::string derived = "derived";

struct Line {
  std::string text, origin;
};

/// True if reading the file again without this line gives the value that it has.
bool follows_again(const Key& key, const Config& config, const std::string& value) {
  const Origin* origin = config.origins.find(key.path);
  if (!key.derive || origin == nullptr || origin->place != derived) return false;
  Config copy = config;
  key.derive(copy);
  return value_text(key, copy) == value;
}

/// What a line of a value that follows from others looks like.
enum class Followers { as_values, as_comments };

std::vector<Line> lines_of(const Config& config, Followers followers) {
  Config copy = config;  // places hand out references
  std::vector<Line> lines;
  std::string_view before;
  for (const Key& key : keys()) {
    if (!applies(key, config)) continue;
    for (std::string& opening : opening_lines(key.path, before))
      lines.push_back({std::move(opening), ""});
    const std::string value = value_text(key, copy);
    const Origin* origin = config.origins.find(key.path);
    const bool is_comment =
        followers == Followers::as_comments && follows_again(key, config, value);
    lines.push_back(
        {indent_of(key.path) + format("{}{}: {}", is_comment ? "# " : "", leaf_of(key.path), value),
         origin != nullptr && origin->value == value ? origin->place : derived});
    before = key.path;
  }
  return lines;
}

}  // namespace

std::string model_yaml(const model::Spec& model) {
  Config config;
  config.set_model(model);
  std::string text;
  std::string_view before;
  for (const Key& key : keys()) {
    if (!is_inside(key.path, "model") || !applies(key, config)) continue;
    for (const std::string& opening : opening_lines(key.path, before))
      if (!opening.empty()) text += opening + "\n";
    text += indent_of(key.path) + format("{}: {}\n", leaf_of(key.path), value_text(key, config));
    before = key.path;
  }
  return text;
}

std::string resolved_yaml(const Config& config) {
  std::string text = "# Every setting of a run, defaults included.\n";
  for (const Line& line : lines_of(config, Followers::as_values)) text += line.text + "\n";
  return text;
}

std::string shown_yaml(const Config& config) {
  std::string text =
      "# Every setting of a run, defaults included, and where its value comes from. A key behind a "
      "'# ' "
      "follows\n# from others, also from those that --set changes; remove the '# ' to fix its "
      "value.\n";
  const std::vector<Line> lines = lines_of(config, Followers::as_comments);
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

void mark_followers(Config& config) {
  for (const Key& key : keys()) {
    if (!key.derive) continue;
    const std::string value = value_text(key, config);
    Config copy = config;
    key.derive(copy);
    if (value_text(key, copy) == value) config.origins.set(key.path, {derived, value});
  }
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
