// Critical nodes (Zhang et al. 2023, "Rhino", section 4.3.1): what computes much on the longest
// path, one after another, and the segments of a problem between them.
#pragma once

#include <cstddef>
#include <vector>

#include "solve/problem.h"

namespace fourfold::solve {

struct CriticalNodes {
  std::vector<std::size_t> nodes;     // in the order of the path
  std::vector<std::size_t> segments;  // of each other node; of a critical one, the one it begins
  std::size_t num_segments = 1;
  std::vector<bool> jumps;  // of each edge: whether its ends have no segment in common
};

/// Each node takes one unit of time and nothing else does. Critical is a heavy node whose earliest
/// time is its latest one, and no other node's of which that is true. Where the problem says of no
/// node that it is heavy, those are whose least cost is at least the mean of all. A segment lies
/// between two critical nodes that follow one another; what comes before the first belongs to the
/// first segment, what comes after the last to the last. A node belongs where its earliest time is,
/// one that takes nothing from others where it is read first.
CriticalNodes find_critical_nodes(const Problem& problem);

}  // namespace fourfold::solve
