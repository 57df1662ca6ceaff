// How keys lie in a YAML file: sections opened once, two spaces a level. Shared by what writes
// YAML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fourfold::config {

/// The lines before `path` that open the sections which `before`, the key written last, is not in;
/// an empty one before each outermost section or top-level key.
std::vector<std::string> opening_lines(std::string_view path, std::string_view before);

/// The spaces before a key.
std::string indent_of(std::string_view path);

}  // namespace fourfold::config
