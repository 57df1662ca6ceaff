#include "solve/try_all.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/format.h"

namespace fourfold::solve {
namespace {

constexpr std::size_t most_nodes = 1000;  // each is a call within that of the one before it

/// Nodes in their order, each with all of its choices; an edge is paid at its later end.
class Trier {
 public:
  explicit Trier(const Problem& problem)
      : problem_(problem), to_earlier_(problem.nodes.size()), choices_(problem.nodes.size()) {
    for (const Edge& edge : problem.edges)
      to_earlier_[std::max(edge.src, edge.dst)].push_back(&edge);
  }

  void run() { descend(0, 0); }

  std::vector<std::size_t> best;
  double best_cost = forbidden;
  std::uint64_t visited = 0;

 private:
  void descend(std::size_t node, double cost) {
    if (node == problem_.nodes.size()) {
      ++visited;
      if (cost >= best_cost) return;
      best_cost = cost;
      best = choices_;
      return;
    }
    for (std::size_t choice = 0; choice < problem_.choices(node); ++choice) {
      choices_[node] = choice;
      double more = cost + problem_.nodes[node].comp[choice];
      for (const Edge* edge : to_earlier_[node])
        more += problem_.comm(*edge, choices_[edge->src], choices_[edge->dst]);
      if (more < forbidden) descend(node + 1, more);
    }
  }

  const Problem& problem_;
  std::vector<std::vector<const Edge*>> to_earlier_;
  std::vector<std::size_t> choices_;
};

}  // namespace

Outcome try_all(const Problem& problem, const Limits& limits) {
  const double assignments = num_assignments(problem);
  if (assignments > limits.assignments || problem.nodes.size() > most_nodes)
    return Refused{ExitCode::does_not_fit,
                   format("exhaustive: {} nodes have {:.2g} assignments; it tries {:.2g} of {} "
                          "nodes at most: use elimination, or o3",
                          problem.nodes.size(), assignments, limits.assignments, most_nodes)};
  Trier trier(problem);
  trier.run();
  if (trier.best.empty()) return no_assignment();
  Solution solution;
  solution.cost = solution.lower_bound = cost_of(problem, trier.best);
  solution.choices = std::move(trier.best);
  solution.statistics = sizes_of(problem);
  solution.statistics.visited = trier.visited;
  return solution;
}

}  // namespace fourfold::solve
