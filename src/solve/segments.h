// The solver O2 (Zhang et al. 2023, "Rhino", section 4.3.2): each segment between two critical
// nodes for each pair of their choices, then the best chain of segments. An edge that jumps over a
// critical node is ignored in that search. The paper ends there; training graphs have many such
// edges, and here each segment is then solved again beside the others, with all edges.
#pragma once

#include <cstddef>
#include <vector>

#include "solve/critical_nodes.h"
#include "solve/problem.h"
#include "solve/solution.h"
#include "solve/sweep.h"

namespace fourfold::solve {

/// O2 as the paper writes it. Not exact where edges jump. One elimination of a segment's nodes but
/// the critical ones gives the costs of all pairs at once. Its lower bound is what the search
/// finds, without those edges.
Outcome solve_segments(const Problem& problem, const Limits& limits);

/// An assignment after each segment was solved again beside what was chosen for all others, and
/// then each two segments that meet (sweep.h). Edges that jump are paid too.
Swept sweep_segments(const Problem& problem, const CriticalNodes& critical,
                     std::vector<std::size_t> choices, const Limits& limits);

/// solve_segments, then sweep_segments: never worse, and still not exact. Also finds an assignment
/// where the segments that were solved once meet in a forbidden pair, if a sweep leads to one.
Outcome solve_segments_again(const Problem& problem, const Limits& limits);

}  // namespace fourfold::solve
