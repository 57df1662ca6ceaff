// An assignment problem: each node takes one of its choices, and pays for it; each edge pays for
// the pair that its two ends take. Not what the choices mean (search/), and not how they are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace fourfold::solve {

/// The cost of what must not be.
inline constexpr double forbidden = std::numeric_limits<double>::infinity();
/// No cost of a choice or of a pair is larger, so that sums are finite.
inline constexpr double most_cost = 1e100;
inline constexpr std::size_t most_choices = 65'535;

struct Node {
  std::string name;          // differs from the names of the others; empty: none
  std::vector<double> comp;  // of each choice: from 0 to most_cost, or forbidden
  bool is_heavy = false;     // computes much: where critical nodes are looked for (segments.h)
  bool operator==(const Node&) const = default;
};

/// What `dst` takes from `src`. Two nodes may have several.
struct Edge {
  std::size_t src = 0, dst = 0;
  std::vector<double> comm;  // row by row, a row for each choice of src, as `comp`
  bool operator==(const Edge&) const = default;
};

/// The edges have no cycle. read_problem and check_problem hold what the comments say.
struct Problem {
  std::vector<Node> nodes;
  std::vector<Edge> edges;

  std::size_t choices(std::size_t node) const { return nodes[node].comp.size(); }
  double comm(const Edge& edge, std::size_t of_src, std::size_t of_dst) const {
    return edge.comm[of_src * choices(edge.dst) + of_dst];
  }
  bool operator==(const Problem&) const = default;
};

/// What is wrong with a problem, with its place ("edges[3].comm[0]: ..."); empty: nothing.
std::string fault_of(const Problem& problem);

/// "'qkv'", or "node 3" where it has no name.
std::string name_of(const Problem& problem, std::size_t node);

/// All nodes, each after those that it takes something from; the lowest number first where several
/// may come next. Fewer where the edges have a cycle: those that neither lie on one nor follow it.
std::vector<std::size_t> order_of(const Problem& problem);

/// The edges of each node that lead into it and out of it, by number, ascending.
struct EdgesOfNodes {
  explicit EdgesOfNodes(const Problem& problem);
  std::vector<std::vector<std::size_t>> in, out;
};

/// One edge for all between two nodes, whose costs are added up; in the order of the first of each.
std::vector<Edge> joined_edges(const Problem& problem);

/// What an assignment of a choice to each node costs: the nodes in their order, then the edges.
double cost_of(const Problem& problem, std::span<const std::size_t> choices);

/// The number of assignments, allowed or not.
double num_assignments(const Problem& problem);

}  // namespace fourfold::solve
