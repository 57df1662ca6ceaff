// Tries every assignment: what other solvers are compared with. Not for more than a dozen nodes.
#pragma once

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

/// The first assignment of least cost, in the order in which the last node changes fastest. Refuses
/// more assignments than the limit. Cost: assignments.
Outcome try_all(const Problem& problem, const Limits& limits);

}  // namespace fourfold::solve
