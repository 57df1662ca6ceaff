// Exact elimination of variables (Bertele, Brioschi 1972, "Nonserial dynamic programming"): one
// node after another is replaced by a table of what its best choice costs, over the choices of its
// neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "solve/elimination_order.h"
#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

/// A problem without the nodes of an order.
class Elimination {
 public:
  /// The problem and the order outlive it. Cost: the entries of the order.
  Elimination(const Problem& problem, const EliminationOrder& order,
              std::span<const std::size_t> kept = {});

  /// The least cost for each choice of the kept nodes, the last one changing fastest; with all
  /// nodes' own costs. One number where none is kept.
  const std::vector<double>& costs() const { return costs_; }

  /// Fills in the best choices of all nodes but the kept ones, whose choices are there.
  void complete(std::span<std::size_t> choices) const;

 private:
  const EliminationOrder& order_;
  std::vector<std::vector<std::size_t>> sizes_;   // by place: the choices of its neighbours
  std::vector<std::vector<std::uint16_t>> best_;  // by place: over these
  std::vector<double> costs_;
};

/// Why an order takes more than the limit; empty where it does not. `name` is that of the solver.
std::string excess_of(const Problem& problem, const EliminationOrder& order, const Limits& limits,
                      std::string_view name);

/// The solver: dominated choices go first, then, where tables are large, choices that a bound
/// excludes (dual_bound.h).
Outcome eliminate(const Problem& problem, const Limits& limits);

}  // namespace fourfold::solve
