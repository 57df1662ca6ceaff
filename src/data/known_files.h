// Which files are others again, by their names, by links or as copies. Not what they hold.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fourfold::data {

/// Files that were seen, to compare others with. Cost: a look at each; those of equal size are
/// hashed (sampled_hash), each once. Files that cannot be read are passed over: their reader says
/// why.
class KnownFiles {
 public:
  struct Same {
    std::string path;      // of the known file
    bool is_copy = false;  // else one file, by two names or one
  };

  void add(const std::string& path);
  /// The known file that this one is again. A file without bytes is no copy of another.
  std::optional<Same> find(const std::string& path);

 private:
  struct OfOneSize {
    std::vector<std::string> unhashed;
    std::map<std::uint64_t, std::string> by_hash;
  };
  std::map<std::pair<dev_t, ino_t>, std::string> by_id_;
  std::map<off_t, OfOneSize> by_size_;
};

}  // namespace fourfold::data
