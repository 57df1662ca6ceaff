// In which order nodes are eliminated, and what that takes. Not the elimination: eliminate.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "solve/problem.h"

namespace fourfold::solve {

/// Where a node is eliminated, its neighbours become neighbours of each other: the table of its
/// best choices is over all of them.
struct EliminationOrder {
  std::vector<std::size_t> nodes;
  /// By place in `nodes`: the neighbours that are left then; those that go last first, so that the
  /// next of them to go is the last. A node that is kept stays to the end.
  std::vector<std::vector<std::size_t>> neighbours;
  std::vector<std::size_t>
      place;              // of each node in `nodes`; of kept ones past them, the first last
  std::size_t width = 0;  // the most neighbours
  double entries = 0;     // that are computed: of all tables, times the choices of their node
  double bytes = 0;       // of tables at once, with the choices that are remembered
};

/// The cheaper of two orders: the node of the smallest table first, and the node that joins the
/// fewest neighbours first. Ties go to the smaller table, then to the lower number. All nodes but
/// the kept ones. Cost: nodes x width^2, about.
EliminationOrder choose_order(const Problem& problem, std::span<const std::size_t> kept = {});

}  // namespace fourfold::solve
