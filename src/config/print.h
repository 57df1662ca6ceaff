// The schema in words for people. Not parsing.
#pragma once

#include <string>
#include <string_view>

namespace fourfold::config {

/// What a key means: type, default, unit, names in other tools, an example; for a section, its
/// keys. Errors: UserError(bad_config) with a suggestion when there is no such key.
std::string explain(std::string_view path);

/// The table of all keys, as it stands in configs/README.md.
std::string keys_markdown();

}  // namespace fourfold::config
