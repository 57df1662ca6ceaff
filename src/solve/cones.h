// Cones (Zhang et al. 2023, "Rhino", section 4.3.2): a root, and the nodes whose outcome leads to
// it alone. Roots are nodes that take from several others, and also those that several others take
// from, and sinks: then a cone holds nothing but chains, and what they cost follows from the
// choices of the roots at their two ends.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

/// The same problem over roots alone. An edge is a chain from one root to another, with the best
/// choices of the nodes between them for each pair; a chain that begins nowhere is in the costs of
/// its root. Exact: the least cost stays.
class Cones {
 public:
  /// Cost: for each edge, choices^3.
  explicit Cones(const Problem& problem);

  const Problem& problem() const { return reduced_; }
  const std::vector<std::size_t>& roots() const { return roots_; }  // numbers in the problem
  /// The choices of all nodes, where `of_roots` are those of the roots.
  std::vector<std::size_t> whole(std::span<const std::size_t> of_roots) const;

 private:
  struct Chain;
  /// A node between the root that its chain comes from and the node after it, and its best choice
  /// for each of theirs.
  struct Link {
    std::size_t node, next, choices_of_next;
    std::optional<std::size_t> origin;
    std::vector<std::size_t> best;  // a row for each choice of origin; one where there is none
  };

  Chain extend(const Chain& chain, std::size_t node, const Edge& edge);
  void end_chain(Chain chain, std::size_t root);

  Problem reduced_;
  std::vector<std::size_t> roots_, number_of_root_;
  std::vector<Link> links_;  // a link comes before that of its next node
  std::size_t num_nodes_;
};

/// The solver O3: cones, then one exact solve over them, by the tight integer form where CBC is
/// there, else by elimination.
Outcome solve_cones(const Problem& problem, const Limits& limits);

}  // namespace fourfold::solve
