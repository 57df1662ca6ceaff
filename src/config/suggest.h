// What to say about a key or a name that does not exist. Not about wrong numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"

namespace fourfold::config {

struct Suggestion {
  std::string text;  // "did you mean 'model.num_layers'?"
  std::string key;   // the key meant, if one is likely; else empty
};

/// For a path that is no key: from other tools' names and near misses; else the keys there are.
Suggestion suggest(std::string_view path);

/// For a value that is none of a key's names: the one that is meant, or why there is none; else
/// empty.
std::string suggest_value(const Key& key, std::string_view text,
                          const std::vector<std::string>& names);

/// "section 'eval' has: interval_steps, batches"; for "" the sections and top-level keys.
std::string names_in_words(std::string_view section);

}  // namespace fourfold::config
