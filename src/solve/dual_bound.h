// A lower bound that is raised by moving costs between edges and their ends (MPLP++: Tourani,
// Shekhovtsov, Rother, Savchynskyy 2018, "MPLP++: fast, parallel dual block-coordinate ascent for
// dense graphical models"), and choices that it excludes. At best it is the tight integer program's
// relaxation, which it needs no library for.
#pragma once

#include <cstddef>
#include <vector>

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

struct DualBound {
  double bound = 0;  // no assignment costs less
  /// By how much more than the bound an assignment with that choice costs at least.
  std::vector<std::vector<double>> more;
};

/// A problem in which each choice fits one of each neighbour's (prune.h). Ends where two sweeps
/// over all edges gain next to nothing. Cost: for each sweep, the entries of all edges.
DualBound raise_bound(const Problem& problem, std::size_t most_sweeps);

/// The same problem, in which choices are forbidden that no assignment takes which costs as little
/// as one that `o2` and a sweep over nodes find. The least cost stays.
Problem without_dear_choices(const Problem& problem, const Limits& limits);

}  // namespace fourfold::solve
