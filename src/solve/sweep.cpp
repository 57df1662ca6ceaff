#include "solve/sweep.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "solve/eliminate.h"
#include "solve/elimination_order.h"

namespace fourfold::solve {
namespace {

constexpr std::size_t most_sweeps = 40;
/// What is gained by less is rounding.
constexpr double least_gain = 1e-12;

/// One group as a problem, without what it pays for the choices of others.
struct Group {
  Problem inner;
  std::vector<std::size_t> nodes;        // their numbers in the whole problem
  std::vector<std::size_t> outer_edges;  // to nodes of other groups
  EliminationOrder order;
};

class Sweeper {
 public:
  Sweeper(const Problem& problem, std::span<const std::size_t> groups)
      : problem_(problem), number_(problem.nodes.size()), groups_of_(groups) {
    for (std::size_t node = 0; node < groups.size(); ++node) {
      groups_.resize(std::max(groups_.size(), groups[node] + 1));
      Group& group = groups_[groups[node]];
      number_[node] = group.nodes.size();
      group.nodes.push_back(node);
      group.inner.nodes.push_back(problem.nodes[node]);
    }
    for (std::size_t i = 0; i < problem.edges.size(); ++i) {
      const Edge& edge = problem.edges[i];
      const std::size_t of_src = groups[edge.src], of_dst = groups[edge.dst];
      if (of_src == of_dst) {
        groups_[of_src].inner.edges.push_back({number_[edge.src], number_[edge.dst], edge.comm});
        continue;
      }
      groups_[of_src].outer_edges.push_back(i);
      groups_[of_dst].outer_edges.push_back(i);
    }
    for (Group& group : groups_) group.order = choose_order(group.inner);
  }

  Swept run(std::vector<std::size_t> choices, const Limits& limits) {
    Swept swept{std::move(choices)};
    bool has_changed = true;
    while (has_changed && swept.sweeps < most_sweeps) {
      has_changed = false;
      ++swept.sweeps;
      for (std::size_t i = 0; i < groups_.size(); ++i) {
        if (groups_[i].order.bytes > limits.bytes) continue;
        swept.visited += static_cast<std::uint64_t>(groups_[i].order.entries);
        has_changed = improve(i, swept.choices) || has_changed;
      }
    }
    return swept;
  }

 private:
  bool improve(std::size_t number, std::vector<std::size_t>& choices) {
    Group& group = groups_[number];
    for (std::size_t i = 0; i < group.nodes.size(); ++i)
      group.inner.nodes[i].comp = problem_.nodes[group.nodes[i]].comp;
    for (const std::size_t i : group.outer_edges) pay(problem_.edges[i], number, choices);
    std::vector<std::size_t> before;
    for (const std::size_t node : group.nodes) before.push_back(choices[node]);
    const double cost = cost_of(group.inner, before);
    const Elimination elimination(group.inner, group.order);
    const double least = elimination.costs().front();
    if (least == forbidden || least >= cost - least_gain * least) return false;
    std::vector<std::size_t> after(group.nodes.size());
    elimination.complete(after);
    for (std::size_t i = 0; i < after.size(); ++i) choices[group.nodes[i]] = after[i];
    return true;
  }

  /// Adds what an edge costs, given the choice of the end outside, to the end inside.
  void pay(const Edge& edge, std::size_t number, std::span<const std::size_t> choices) {
    const bool is_src = groups_of_[edge.src] == number;
    const std::size_t inside = is_src ? edge.src : edge.dst;
    std::vector<double>& comp = groups_[number].inner.nodes[number_[inside]].comp;
    for (std::size_t choice = 0; choice < comp.size(); ++choice)
      comp[choice] += is_src ? problem_.comm(edge, choice, choices[edge.dst])
                             : problem_.comm(edge, choices[edge.src], choice);
  }

  const Problem& problem_;
  std::vector<std::size_t> number_;  // of each node in its group
  std::span<const std::size_t> groups_of_;
  std::vector<Group> groups_;
};

}  // namespace

Swept sweep(const Problem& problem, std::span<const std::size_t> groups,
            std::vector<std::size_t> choices, const Limits& limits) {
  return Sweeper(problem, groups).run(std::move(choices), limits);
}

}  // namespace fourfold::solve
