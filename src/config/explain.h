// The schema in words for people. Not values (print.h).
#pragma once

#include <string>
#include <string_view>

namespace fourfold::config {

/// What a key means: type, default, unit, cost, names in other tools, an example; for a section its
/// keys; for "" all sections. Errors: UserError(bad_config) with a suggestion when there is no such
/// key.
std::string explain(std::string_view path);

/// The page of all keys, as it stands in configs/KEYS.md.
std::string keys_markdown();

}  // namespace fourfold::config
