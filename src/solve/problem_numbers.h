// How large a problem is, and what the solvers make of it: the numbers beside table 5 of the paper
// (Zhang et al. 2023, "Rhino"). Nothing is solved.
#pragma once

#include <cstddef>
#include <string>

#include "solve/problem.h"

namespace fourfold::solve {

struct ProblemNumbers {
  std::size_t nodes = 0, edges = 0;  // pairs of nodes that have some
  std::size_t choices = 0;           // of all nodes
  std::size_t most_choices = 0;      // of one node
  /// Choices that fit no neighbour's or are dominated (prune.h), of all nodes.
  std::size_t dropped = 0;
  std::size_t width = 0;  // the most nodes that one table of elimination is over, without these
  std::size_t cones = 0;
  std::size_t critical = 0;  // critical nodes
  std::size_t segments = 0;  // between these
  bool operator==(const ProblemNumbers&) const = default;
};

ProblemNumbers numbers_of(const Problem& problem);

/// "235 nodes, 412 edges, ...", one line.
std::string to_string(const ProblemNumbers& numbers);

}  // namespace fourfold::solve
