#include "solve/cones.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "solve/cbc.h"
#include "solve/eliminate.h"
#include "solve/integer_forms.h"

namespace fourfold::solve {
namespace {

/// The edges of each node, where two nodes have one at most.
struct JoinedGraph {
  explicit JoinedGraph(const Problem& problem)
      : edges(joined_edges(problem)), in(problem.nodes.size()), num_out(problem.nodes.size()) {
    for (const Edge& edge : edges) {
      in[edge.dst].push_back(&edge);
      ++num_out[edge.src];
    }
  }
  bool is_root(std::size_t node) const { return in[node].size() > 1 || num_out[node] != 1; }

  std::vector<Edge> edges;
  std::vector<std::vector<const Edge*>> in;
  std::vector<std::size_t> num_out;
};

}  // namespace

/// What a chain costs up to and with its last node, for each choice of the root that it comes from
/// (one row where it comes from none) and of that node.
struct Cones::Chain {
  std::optional<std::size_t> origin;
  std::size_t last = 0;
  std::size_t rows = 1;
  std::vector<double> costs;
};

Cones::Cones(const Problem& problem)
    : number_of_root_(problem.nodes.size()), num_nodes_(problem.nodes.size()) {
  const JoinedGraph graph(problem);
  for (std::size_t node = 0; node < num_nodes_; ++node)
    if (graph.is_root(node)) {
      number_of_root_[node] = roots_.size();
      roots_.push_back(node);
      reduced_.nodes.push_back(problem.nodes[node]);
      // It is told by the number that it has in the whole problem.
      if (problem.nodes[node].name.empty()) reduced_.nodes.back().name = format("node {}", node);
    }
  std::vector<Chain> chains(num_nodes_);  // by their last node
  for (const std::size_t node : order_of(problem)) {
    const std::vector<double>& comp = problem.nodes[node].comp;
    std::vector<Chain> ended;
    for (const Edge* edge : graph.in[node])
      ended.push_back(graph.is_root(edge->src)
                          ? Chain{edge->src, node, problem.choices(edge->src), edge->comm}
                          : extend(chains[edge->src], node, *edge));
    if (graph.is_root(node)) {
      for (Chain& chain : ended) end_chain(std::move(chain), node);
      continue;
    }
    Chain& chain = chains[node];
    chain = ended.empty() ? Chain{std::nullopt, node, 1, std::vector<double>(comp.size())}
                          : std::move(ended.front());
    for (std::size_t at = 0; at < chain.costs.size(); ++at)
      chain.costs[at] += comp[at % comp.size()];
  }
}

/// The chain with an edge to a further node, whose own costs are not yet in it.
Cones::Chain Cones::extend(const Chain& chain, std::size_t node, const Edge& edge) {
  const std::size_t inner = chain.costs.size() / chain.rows, columns = edge.comm.size() / inner;
  Chain longer{chain.origin, node, chain.rows, std::vector<double>(chain.rows * columns)};
  Link link{chain.last, node, columns, chain.origin, std::vector<std::size_t>(longer.costs.size())};
  for (std::size_t row = 0; row < chain.rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) {
      double least = forbidden;
      std::size_t best = 0;
      for (std::size_t i = 0; i < inner; ++i) {
        const double cost = chain.costs[row * inner + i] + edge.comm[i * columns + column];
        if (cost < least) {
          least = cost;
          best = i;
        }
      }
      longer.costs[row * columns + column] = least;
      link.best[row * columns + column] = best;
    }
  links_.push_back(std::move(link));
  return longer;
}

void Cones::end_chain(Chain chain, std::size_t root) {
  const std::size_t number = number_of_root_[root];
  if (chain.origin) {
    reduced_.edges.push_back({number_of_root_[*chain.origin], number, std::move(chain.costs)});
    return;
  }
  std::vector<double>& comp = reduced_.nodes[number].comp;
  for (std::size_t choice = 0; choice < comp.size(); ++choice) comp[choice] += chain.costs[choice];
}

std::vector<std::size_t> Cones::whole(std::span<const std::size_t> of_roots) const {
  require(of_roots.size() == roots_.size(), "each root has a choice");
  std::vector<std::size_t> choices(num_nodes_);
  for (std::size_t number = 0; number < roots_.size(); ++number)
    choices[roots_[number]] = of_roots[number];
  for (std::size_t at = links_.size(); at-- > 0;) {
    const Link& link = links_[at];
    const std::size_t row = link.origin ? choices[*link.origin] : 0;
    choices[link.node] = link.best[row * link.choices_of_next + choices[link.next]];
  }
  return choices;
}

Outcome solve_cones(const Problem& problem, const Limits& limits) {
  const Cones cones(problem);
  Outcome outcome =
      has_cbc() ? solve_tight_form(cones.problem(), limits) : eliminate(cones.problem(), limits);
  auto* solution = std::get_if<Solution>(&outcome);
  if (solution == nullptr) return outcome;
  solution->choices = cones.whole(solution->choices);
  solution->cost = cost_of(problem, solution->choices);
  if (solution->bound == Bound::proved) solution->lower_bound = solution->cost;
  solution->lower_bound = std::min(solution->lower_bound, solution->cost);
  if (solution->relaxation) solution->relaxation = std::min(*solution->relaxation, solution->cost);
  const Statistics reduced = std::exchange(solution->statistics, sizes_of(problem));
  solution->statistics.width = reduced.width;
  solution->statistics.columns = reduced.columns;
  solution->statistics.visited = reduced.visited;
  solution->statistics.cones = cones.roots().size();
  return outcome;
}

}  // namespace fourfold::solve
