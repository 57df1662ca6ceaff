// Removes choices that no best assignment needs, and what then is a constant. Exact: the least cost
// stays. Not a solver.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

struct Pruned {
  /// The same nodes with fewer choices. Two nodes have one edge at most, and a node of one choice
  /// none: its pairs are in the costs of its neighbours.
  Problem problem;
  std::vector<std::vector<std::size_t>> kept;  // of each node: the numbers that its choices had
  std::vector<std::size_t> as_before(std::span<const std::size_t> choices) const;
};

/// Removes a choice that fits none of a neighbour's, and one that another choice of its node
/// dominates: is as cheap, whatever the neighbours take (Goldstein 1994, "Efficient rotamer
/// elimination"). Of two alike the first stays. Refuses a problem in which a node loses all
/// choices, with its name. Cost: for each edge, choices^3, some times.
std::variant<Pruned, Refused> prune(const Problem& problem);

}  // namespace fourfold::solve
