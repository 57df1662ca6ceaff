// Files that should differ and are the same. Not what they hold.
#pragma once

#include <string>
#include <vector>

namespace fourfold::data {

/// A set, as a configuration names it, and its files.
struct SetFiles {
  std::string key;  // "data.path"
  std::vector<std::string> files;
};

/// A line for each file of `second` that `first` has too: under the same name, by a link, or as a
/// copy of equal size whose sampled bytes are equal; at most 8 lines. `then` says what follows from
/// it. Files that cannot be read are passed over: their reader says why.
std::vector<std::string> notes_on_common_files(const SetFiles& first, const SetFiles& second,
                                               const std::string& then);

}  // namespace fourfold::data
