// Improves an assignment group by group. Not a search of its own: what it comes to depends on where
// it begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

struct Swept {
  std::vector<std::size_t> choices;
  std::size_t sweeps = 0;     // over all groups, the last one without a change
  std::uint64_t visited = 0;  // entries of tables
};

/// Solves each group of nodes again, exactly, beside the choices of all others, and all groups
/// again until none changes, or forty times. An assignment that is not allowed may become so. A
/// group whose tables are above the limit stays as it is. `groups`: the number of each node's.
Swept sweep(const Problem& problem, std::span<const std::size_t> groups,
            std::vector<std::size_t> choices, const Limits& limits);

}  // namespace fourfold::solve
