// The solver O2 (Zhang et al. 2023, "Rhino", section 4.3.2): each segment between two critical
// nodes for each pair of their choices, then the best chain of segments. An edge that jumps over a
// critical node is ignored in the search, and paid in the end.
#pragma once

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

/// Not exact where edges jump. One elimination of a segment's nodes but the critical ones gives the
/// costs of all pairs at once. Its lower bound is what the search finds, without those edges.
Outcome solve_segments(const Problem& problem, const Limits& limits);

}  // namespace fourfold::solve
