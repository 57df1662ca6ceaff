// The processes that a launcher started beside this one on its host, as /proc shows them. For times
// when the ranks cannot hear each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::comm {

struct Sibling {
  std::int64_t rank = 0;  // as the launcher counts
  std::int64_t pid = 0;
  bool is_stopped = false;  // by a signal

  bool operator==(const Sibling&) const = default;
};

/// Those with the parent of this process that have a rank of the launcher, this one among them, by
/// rank. Empty where `proc` tells nothing of this process.
std::vector<Sibling> siblings(const std::string& proc = "/proc");

}  // namespace fourfold::comm
