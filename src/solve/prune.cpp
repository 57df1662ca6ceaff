#include "solve/prune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/format.h"

namespace fourfold::solve {
namespace {

/// Most choices that are dominated are found in two rounds.
constexpr int most_rounds = 4;

class Pruner {
 public:
  explicit Pruner(const Problem& problem)
      : nodes_(problem.nodes), edges_(joined_edges(problem)), of_node_(nodes_.size()) {
    for (const Node& node : nodes_) {
      std::vector<std::size_t>& choices = kept_.emplace_back();
      for (std::size_t choice = 0; choice < node.comp.size(); ++choice)
        if (node.comp[choice] < forbidden) choices.push_back(choice);
    }
    for (const Edge& edge : edges_) {
      of_node_[edge.src].push_back({&edge, edge.dst, true});
      of_node_[edge.dst].push_back({&edge, edge.src, false});
    }
  }

  /// The first node that has no choice left, if there is one.
  std::optional<std::size_t> remove_misfits() {
    std::vector<bool> is_waiting(nodes_.size(), true);
    std::vector<std::size_t> waiting(nodes_.size());
    for (std::size_t i = 0; i < waiting.size(); ++i) waiting[i] = nodes_.size() - 1 - i;
    while (!waiting.empty()) {
      const std::size_t node = waiting.back();
      waiting.pop_back();
      is_waiting[node] = false;
      const std::size_t removed =
          std::erase_if(kept_[node], [&](std::size_t choice) { return !fits(node, choice); });
      if (kept_[node].empty()) return node;
      if (removed == 0) continue;
      for (const Side& side : of_node_[node])
        if (!is_waiting[side.other]) {
          is_waiting[side.other] = true;
          waiting.push_back(side.other);
        }
    }
    return std::nullopt;
  }

  void remove_dominated() {
    std::vector<bool> is_due(nodes_.size(), true);
    for (int round = 0; round < most_rounds; ++round) {
      std::vector<bool> is_due_next(nodes_.size());
      bool has_removed = false;
      for (std::size_t node = 0; node < nodes_.size(); ++node) {
        if (!is_due[node] || !remove_dominated(node)) continue;
        has_removed = true;
        for (const Side& side : of_node_[node]) is_due_next[side.other] = true;
      }
      if (!has_removed) return;
      is_due = std::move(is_due_next);
    }
  }

  Pruned result() && {
    Pruned pruned;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      Node fewer{nodes_[node].name, {}, nodes_[node].is_heavy};
      for (const std::size_t choice : kept_[node]) fewer.comp.push_back(nodes_[node].comp[choice]);
      pruned.problem.nodes.push_back(std::move(fewer));
    }
    for (const Edge& edge : edges_) {
      Edge fewer{edge.src, edge.dst, {}};
      const std::size_t columns = nodes_[edge.dst].comp.size();
      for (const std::size_t row : kept_[edge.src])
        for (const std::size_t column : kept_[edge.dst])
          fewer.comm.push_back(edge.comm[row * columns + column]);
      add(std::move(fewer), pruned.problem);
    }
    pruned.kept = std::move(kept_);
    return pruned;
  }

 private:
  /// An edge as one of its ends sees it.
  struct Side {
    const Edge* edge;
    std::size_t other;
    bool is_src;
  };

  double cost(const Side& side, std::size_t choice, std::size_t of_other) const {
    const std::size_t row = side.is_src ? choice : of_other,
                      column = side.is_src ? of_other : choice;
    return side.edge->comm[row * nodes_[side.edge->dst].comp.size() + column];
  }

  bool fits(std::size_t node, std::size_t choice) const {
    return std::ranges::all_of(of_node_[node], [&](const Side& side) {
      return std::ranges::any_of(kept_[side.other], [&](std::size_t of_other) {
        return cost(side, choice, of_other) < forbidden;
      });
    });
  }

  bool dominates(std::size_t node, std::size_t better, std::size_t worse) const {
    double more = nodes_[node].comp[better] - nodes_[node].comp[worse], size = std::abs(more);
    for (const Side& side : of_node_[node]) {
      double most = -forbidden;
      for (const std::size_t of_other : kept_[side.other]) {
        const double with_worse = cost(side, worse, of_other);
        if (with_worse < forbidden)
          most = std::max(most, cost(side, better, of_other) - with_worse);
      }
      if (most == forbidden) return false;
      if (most == -forbidden) return true;  // the worse one fits none
      more += most;
      size += std::abs(most);
    }
    // Sums round: what they round away must not decide.
    const auto terms = static_cast<double>(of_node_[node].size() + 1);
    return more <= -terms * std::numeric_limits<double>::epsilon() * size;
  }

  bool remove_dominated(std::size_t node) {
    std::vector<std::size_t>& choices = kept_[node];
    const std::size_t before = choices.size();
    for (std::size_t at = choices.size(); at-- > 0;) {
      const std::size_t worse = choices[at];
      if (std::ranges::any_of(choices, [&](std::size_t better) {
            return better != worse && dominates(node, better, worse);
          }))
        choices.erase(choices.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return choices.size() < before;
  }

  static void add(Edge edge, Problem& problem) {
    if (problem.choices(edge.src) == 1)
      add(edge.comm, problem.nodes[edge.dst]);
    else if (problem.choices(edge.dst) == 1)
      add(edge.comm, problem.nodes[edge.src]);
    else
      problem.edges.push_back(std::move(edge));
  }
  static void add(std::span<const double> costs, Node& node) {
    for (std::size_t choice = 0; choice < costs.size(); ++choice)
      node.comp[choice] += costs[choice];
  }

  const std::vector<Node>& nodes_;
  std::vector<Edge> edges_;
  std::vector<std::vector<Side>> of_node_;
  std::vector<std::vector<std::size_t>> kept_;
};

}  // namespace

std::vector<std::size_t> Pruned::as_before(std::span<const std::size_t> choices) const {
  std::vector<std::size_t> before;
  for (std::size_t node = 0; node < choices.size(); ++node)
    before.push_back(kept[node][choices[node]]);
  return before;
}

std::variant<Pruned, Refused> prune(const Problem& problem) {
  Pruner pruner(problem);
  if (const auto node = pruner.remove_misfits())
    return no_assignment(
        format("no choice of {} fits all its neighbours", name_of(problem, *node)));
  pruner.remove_dominated();
  return std::move(pruner).result();
}

}  // namespace fourfold::solve
