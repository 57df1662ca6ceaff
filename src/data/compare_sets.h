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
/// copy of equal size whose sampled bytes are equal; at most 8 lines and one that counts the
/// others. `then` says what follows from it. Files that cannot be read are passed over: their
/// reader says why.
std::vector<std::string> notes_on_common_files(const SetFiles& first, const SetFiles& second,
                                               const std::string& then);

/// The same in one line, for sets of many files; empty where they have none in common.
std::string note_on_common_files(const SetFiles& first, const SetFiles& second,
                                 const std::string& then);

/// What follows where training and validation have files in common.
inline constexpr const char* then_validates =
    "what validates is trained on too, so that its loss says little; name other data in "
    "data.validation, or take it out of the others";

}  // namespace fourfold::data
