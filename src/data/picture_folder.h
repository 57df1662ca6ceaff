// Names in a folder of pictures, in an order that depends on the names alone. Not what the files
// hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/left_out.h"

namespace fourfold::data {

struct FolderEntry {
  std::string name;  // without the folder
  bool is_folder = false;
  bool operator==(const FolderEntry&) const = default;
};

/// What lies in a folder, sorted by the bytes of the names.
struct FolderNames {
  std::vector<FolderEntry> entries;
  LeftOut hidden;  // names such as ".x"
};

/// A link counts as what it leads to, and as a file where it leads nowhere. Errors:
/// UserError(bad_data).
FolderNames list_folder(const std::string& path);

/// Files of a folder that are one set of pictures.
struct ChosenFiles {
  std::vector<std::string> chosen;  // names
  std::vector<std::string> others;  // names with the word "test" or "t10k"
};

/// Sets files for tests aside, so that nobody trains on them by naming a folder; where there are no
/// other files, they are the set.
ChosenFiles choose_files(const std::vector<std::string>& names);

/// True if a name ends so, in capital letters or small ones. `ending` is in small letters.
bool has_ending(std::string_view name, std::string_view ending);

}  // namespace fourfold::data
