// Which files of a folder a reader takes. Not what the files hold.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/left_out.h"

namespace fourfold::data {

struct TakenFiles {
  std::vector<std::string> taken;  // paths, in the order in which they are read
  LeftOut passed_over;             // what a folder has beside them, and why it is not read
  LeftOut repeated;                // files that are taken twice, by their second names

  /// Adds those of another list after the own ones.
  void add(TakenFiles others);
  /// Lines for people: what was passed over, and what is read twice. None where all is as usual.
  std::vector<std::string> notes() const;
};

/// All regular files below a folder, sorted by path. Links are followed, to files and to folders,
/// but for those to a folder around them. Hidden names (".x") are passed over, and so are pipes,
/// sockets and devices. Hidden ones that `named` has as paths are not counted: their caller reads
/// them beside the folder. Errors: UserError(bad_data) for a folder that cannot be listed, and for
/// a link that leads nowhere.
TakenFiles files_below(const std::string& folder, std::span<const std::string> named = {});

/// Notes files that two names of the list lead to, by links, hard ones too, and copies of others.
void note_repeated(TakenFiles& files);

}  // namespace fourfold::data
