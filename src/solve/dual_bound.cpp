#include "solve/dual_bound.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "solve/segments.h"
#include "solve/sweep.h"

namespace fourfold::solve {
namespace {

constexpr std::size_t most_sweeps_for_choices = 200;
/// Two sweeps that gain a smaller share of the bound are the last ones.
constexpr double least_share = 1e-6;
/// The rounding of costs that are moved to and fro, as a share of an assignment's.
constexpr double rounding = 1e-9;

/// The costs of nodes and edges while they are moved. What an assignment costs stays the same, and
/// no edge costs less than 0: the bound is the sum of the nodes' least costs.
class Mover {
 public:
  explicit Mover(const Problem& problem) : edges_(joined_edges(problem)) {
    for (const Node& node : problem.nodes) comp_.push_back(node.comp);
    // Along the edges: a sweep then carries costs from one end of the graph to the other.
    const std::vector<std::size_t> order = order_of(problem);
    std::vector<std::size_t> place(order.size());
    for (std::size_t at = 0; at < order.size(); ++at) place[order[at]] = at;
    std::ranges::stable_sort(
        edges_, {}, [&](const Edge& edge) { return std::pair(place[edge.dst], place[edge.src]); });
  }

  void sweep() {
    for (Edge& edge : edges_) move(edge, comp_[edge.src], comp_[edge.dst]);
    for (auto edge = edges_.rbegin(); edge != edges_.rend(); ++edge)
      move(*edge, comp_[edge->src], comp_[edge->dst]);
  }

  double bound() const {
    double sum = 0;
    for (const std::vector<double>& costs : comp_) sum += *std::ranges::min_element(costs);
    return sum;
  }

  std::vector<std::vector<double>> costs() && { return std::move(comp_); }

 private:
  /// Takes all costs of both ends, and gives each as much as it can have: half of it to the source,
  /// the rest to the destination, what is still left to the source.
  static void move(Edge& edge, std::vector<double>& of_src, std::vector<double>& of_dst) {
    const std::size_t columns = of_dst.size();
    for (std::size_t row = 0; row < of_src.size(); ++row) {
      double* costs = edge.comm.data() + row * columns;
      double least = forbidden;
      for (std::size_t column = 0; column < columns; ++column) {
        costs[column] += of_src[row] + of_dst[column];
        least = std::min(least, costs[column]);
      }
      of_src[row] = least / 2;
      for (std::size_t column = 0; column < columns; ++column) costs[column] -= of_src[row];
    }
    std::ranges::fill(of_dst, forbidden);
    for (std::size_t row = 0; row < of_src.size(); ++row)
      for (std::size_t column = 0; column < columns; ++column)
        of_dst[column] = std::min(of_dst[column], edge.comm[row * columns + column]);
    for (std::size_t row = 0; row < of_src.size(); ++row) {
      double* costs = edge.comm.data() + row * columns;
      double least = forbidden;
      for (std::size_t column = 0; column < columns; ++column) {
        costs[column] -= of_dst[column];
        least = std::min(least, costs[column]);
      }
      of_src[row] += least;
      for (std::size_t column = 0; column < columns; ++column) costs[column] -= least;
    }
  }

  std::vector<std::vector<double>> comp_;
  std::vector<Edge> edges_;
};

/// What an assignment costs that begins with each node's cheapest choice and is then improved;
/// perhaps `forbidden`.
double cost_from(const Problem& problem, const std::vector<std::vector<double>>& more,
                 const Limits& limits) {
  std::vector<std::size_t> choices, alone(problem.nodes.size());
  for (const std::vector<double>& costs : more)
    choices.push_back(static_cast<std::size_t>(std::ranges::min_element(costs) - costs.begin()));
  std::iota(alone.begin(), alone.end(), std::size_t{0});
  choices = sweep(problem, alone, std::move(choices), limits).choices;
  choices =
      sweep_segments(problem, find_critical_nodes(problem), std::move(choices), limits).choices;
  return cost_of(problem, choices);
}

}  // namespace

DualBound raise_bound(const Problem& problem, std::size_t most_sweeps) {
  Mover mover(problem);
  double before = mover.bound();
  for (std::size_t i = 0; i < most_sweeps; i += 2) {
    mover.sweep();
    mover.sweep();
    const double now = mover.bound();
    if (now - before <= least_share * now) break;
    before = now;
  }
  DualBound raised{mover.bound(), std::move(mover).costs()};
  for (std::vector<double>& costs : raised.more) {
    const double least = *std::ranges::min_element(costs);
    for (double& cost : costs) cost -= least;
  }
  return raised;
}

Problem without_dear_choices(const Problem& problem, const Limits& limits) {
  const DualBound raised = raise_bound(problem, most_sweeps_for_choices);
  double known = cost_from(problem, raised.more, limits);
  const Outcome segments = solve_segments_again(problem, limits);
  if (const auto* solution = std::get_if<Solution>(&segments))
    known = std::min(known, solution->cost);
  Problem fewer = problem;
  for (std::size_t node = 0; node < fewer.nodes.size(); ++node)
    for (std::size_t choice = 0; choice < fewer.choices(node); ++choice)
      if (raised.bound + raised.more[node][choice] > known * (1 + rounding))
        fewer.nodes[node].comp[choice] = forbidden;
  return fewer;
}

}  // namespace fourfold::solve
