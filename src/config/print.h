// A whole configuration as YAML, and how keys lie in a file: sections opened once, two spaces a
// level. Not what its keys mean (explain.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace fourfold::config {

/// The section `model` of a model: each of its keys, explicit.
std::string model_yaml(const model::Spec& model);

/// Every key explicit, without comments. Loading it gives the same Config.
std::string resolved_yaml(const Config& config);

/// The same with the origin of each value after it: "default", "gpt.yaml:12", "--set #2", and
/// "derived" for what follows from other values or was settled by the run. What follows again when
/// the text is read stands in a comment, so that it follows what a later file or --set changes too.
std::string shown_yaml(const Config& config);

/// For a configuration loaded from what resolved_yaml made: values that are as they would follow
/// from others have the origin "derived".
void mark_followers(Config& config);

/// For a configuration loaded from `text`, which shown_yaml made and `file` holds: the origins that
/// the text remembers, in place of the lines of the file.
void restore_origins(Config& config, const std::string& file, std::string_view text);

/// The lines before `path` that open the sections which `before`, the key written last, is not in;
/// an empty one before each outermost section or top-level key.
std::vector<std::string> opening_lines(std::string_view path, std::string_view before);

/// The spaces before a key.
std::string indent_of(std::string_view path);

}  // namespace fourfold::config
