// What to say about a key that does not exist. Not about wrong values.
#pragma once

#include <string>
#include <string_view>

namespace fourfold::config {

struct Suggestion {
  std::string text;  // "did you mean 'model.num_layers'?"
  std::string key;   // the key meant, if one is likely; else empty
};

/// For a path that is no key: from other tools' names and near misses; else the keys there are.
Suggestion suggest(std::string_view path);

/// "section 'eval' has: interval_steps, batches"; for "" the sections and top-level keys.
std::string names_in_words(std::string_view section);

}  // namespace fourfold::config
