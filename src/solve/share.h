// Nodes that share one choice: a smaller problem, in which a group of nodes is one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "solve/problem.h"

namespace fourfold::solve {

/// What a node's choices mean: a number for each, alike in all nodes of its group, and no number
/// twice in a node.
using Meanings = std::vector<std::vector<std::size_t>>;

struct Shared {
  /// A node for each group, named as its first one. It has the choices that all nodes of the group
  /// have, in the order of its first one, and costs what these cost together.
  Problem problem;
  std::vector<std::size_t> node_of;               // of each node before: its node here
  std::vector<std::vector<std::size_t>> choices;  // likewise: of each choice here, its own
  /// The choices of all nodes before.
  std::vector<std::size_t> whole(std::span<const std::size_t> choices_here) const;
};

/// `groups`: the number of each node's. No edge may have both ends in one. A node that has no
/// choice in common with those of its group before it is one alone. Edges lead as the first nodes
/// of their groups follow one another.
Shared share(const Problem& problem, std::span<const std::size_t> groups, const Meanings& meanings);

}  // namespace fourfold::solve
