// The same warning from many ranks is said once, then counted. Pure: writes nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/mesh.h"

namespace fourfold::screen {

class WarningFold {
 public:
  /// True if this text is new, and so to be said now. Others are counted.
  bool is_new(std::string_view text);
  /// What to say of those counted since the last call: "... and 3 more ranks: TEXT".
  std::vector<std::string> counted();

 private:
  struct Entry {
    std::string text;
    std::size_t more = 0;
  };
  std::vector<Entry> entries_;
};

/// "[r017 n042 d0z1y0x1]": rank, host, and its place in the grid where that is known.
std::string rank_tag(std::size_t rank, std::string_view host, std::string_view place);

/// "d0z1y0x1": where a rank stands on the axes of a mesh; empty where it is not of it.
std::string grid_place(const Mesh& mesh, std::size_t rank);

}  // namespace fourfold::screen
