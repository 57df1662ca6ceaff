#include "solve/eliminate.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/units.h"
#include "solve/dual_bound.h"
#include "solve/prune.h"

namespace fourfold::solve {
namespace {

/// More entries take longer than a bound that excludes choices.
constexpr double most_entries_at_once = 5e7;

/// A table that depends on the choice of the node in hand, which is its last axis, and on choices
/// of its neighbours.
struct Factor {
  const double* costs;
  std::vector<std::size_t> strides;  // by neighbour; 0 where it does not depend on that one
};

/// A node's best choices, as a table over its neighbours.
struct Message {
  std::vector<std::size_t> scope;
  std::vector<double> costs;
};

/// Counts through the choices of all neighbours but the last.
class Odometer {
 public:
  Odometer(std::span<const std::size_t> sizes, std::span<const Factor> factors)
      : sizes_(sizes.first(sizes.empty() ? 0 : sizes.size() - 1)),
        factors_(factors),
        index_(sizes_.size()),
        offsets_(factors.size()) {}

  const double* costs(std::size_t factor) const {
    return factors_[factor].costs + offsets_[factor];
  }
  /// False past the last.
  bool next() {
    for (std::size_t axis = sizes_.size(); axis-- > 0;) {
      const bool is_over = ++index_[axis] == sizes_[axis];
      for (std::size_t i = 0; i < factors_.size(); ++i) {
        const std::size_t stride = factors_[i].strides[axis];
        if (is_over)
          offsets_[i] -= stride * (sizes_[axis] - 1);
        else
          offsets_[i] += stride;
      }
      if (!is_over) return true;
      index_[axis] = 0;
    }
    return false;
  }

 private:
  std::span<const std::size_t> sizes_;
  std::span<const Factor> factors_;
  std::vector<std::size_t> index_, offsets_;
};

std::size_t product(std::span<const std::size_t> sizes) {
  std::size_t all = 1;
  for (const std::size_t size : sizes) all *= size;
  return all;
}

/// For all choices of the neighbours, the least sum over the choices of the node, whose own costs
/// are `comp`; and the first choice that gives it. Factors that do not depend on the last neighbour
/// are added up once for all of its choices.
void minimize(std::span<const double> comp, std::span<const Factor> factors,
              std::span<const std::size_t> sizes, std::vector<double>& costs,
              std::vector<std::uint16_t>& best) {
  const std::size_t entries = product(sizes), last = sizes.empty() ? 1 : sizes.back();
  costs.resize(entries);
  best.resize(entries);
  std::vector<std::size_t> still, moving;
  for (std::size_t i = 0; i < factors.size(); ++i)
    (sizes.empty() || factors[i].strides.back() == 0 ? still : moving).push_back(i);
  std::vector<double> base(comp.size()), sums(comp.size());
  Odometer odometer(sizes, factors);
  std::size_t at = 0;
  do {
    std::ranges::copy(comp, base.begin());
    for (const std::size_t i : still) {
      const double* more = odometer.costs(i);
      for (std::size_t choice = 0; choice < base.size(); ++choice) base[choice] += more[choice];
    }
    for (std::size_t of_last = 0; of_last < last; ++of_last, ++at) {
      std::ranges::copy(base, sums.begin());
      for (const std::size_t i : moving) {
        const double* more = odometer.costs(i) + of_last * factors[i].strides.back();
        for (std::size_t choice = 0; choice < sums.size(); ++choice) sums[choice] += more[choice];
      }
      std::size_t least = 0;
      for (std::size_t choice = 1; choice < sums.size(); ++choice)
        if (sums[choice] < sums[least]) least = choice;
      costs[at] = sums[least];
      best[at] = static_cast<std::uint16_t>(least);
    }
  } while (odometer.next());
}

/// The factors of one node after another; owns what they point to.
class Gatherer {
 public:
  Gatherer(const Problem& problem, const EliminationOrder& order)
      : problem_(problem), order_(order), edges_(problem), messages_(problem.nodes.size()) {}

  /// Adds a message to those of the first of its scope that goes.
  void add(Message message) { messages_[message.scope.back()].push_back(std::move(message)); }

  /// The edges of a node to nodes that are still there, and the messages that wait for it.
  std::vector<Factor> factors_of(std::size_t node, std::span<const std::size_t> neighbours) {
    turned_.clear();
    std::vector<Factor> factors;
    for (const std::size_t number : edges_.in[node])
      add_edge(problem_.edges[number], node, neighbours, factors);
    for (const std::size_t number : edges_.out[node])
      add_edge(problem_.edges[number], node, neighbours, factors);
    for (const Message& message : messages_[node])
      factors.push_back(factor_of(message, problem_.choices(node), neighbours));
    return factors;
  }
  void free_messages_of(std::size_t node) { messages_[node] = {}; }

  /// What the messages that wait for a node say of an assignment.
  double messages_cost(std::size_t node, std::span<const std::size_t> choices) const {
    double cost = 0;
    for (const Message& message : messages_[node]) {
      std::size_t entry = 0;
      for (const std::size_t one : message.scope)
        entry = entry * problem_.choices(one) + choices[one];
      cost += message.costs[entry];
    }
    return cost;
  }

 private:
  void add_edge(const Edge& edge, std::size_t node, std::span<const std::size_t> neighbours,
                std::vector<Factor>& factors) {
    const std::size_t other = edge.src == node ? edge.dst : edge.src;
    if (order_.place[other] < order_.place[node]) return;  // in a message
    const std::size_t choices = problem_.choices(node);
    Factor factor{edge.comm.data(), std::vector<std::size_t>(neighbours.size())};
    const auto axis = std::ranges::find(neighbours, other) - neighbours.begin();
    factor.strides[static_cast<std::size_t>(axis)] = choices;
    if (edge.src == node) factor.costs = turned(edge);
    factors.push_back(std::move(factor));
  }

  /// The pairs with a row for each choice of `dst`.
  const double* turned(const Edge& edge) {
    std::vector<double>& turned = turned_.emplace_back(edge.comm.size());
    const std::size_t rows = problem_.choices(edge.src), columns = problem_.choices(edge.dst);
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column)
        turned[column * rows + row] = edge.comm[row * columns + column];
    return turned.data();
  }

  /// The scope ends with the node in hand.
  Factor factor_of(const Message& message, std::size_t choices,
                   std::span<const std::size_t> neighbours) const {
    Factor factor{message.costs.data(), std::vector<std::size_t>(neighbours.size())};
    std::size_t stride = choices;
    for (std::size_t at = message.scope.size() - 1; at-- > 0;) {
      const auto axis = std::ranges::find(neighbours, message.scope[at]) - neighbours.begin();
      factor.strides[static_cast<std::size_t>(axis)] = stride;
      stride *= problem_.choices(message.scope[at]);
    }
    return factor;
  }

  const Problem& problem_;
  const EliminationOrder& order_;
  EdgesOfNodes edges_;
  std::vector<std::vector<Message>> messages_;  // by the first of their scope that goes
  std::vector<std::vector<double>> turned_;
};

/// The next choices of some nodes, the last one changing fastest; false past the last, where all
/// are 0 again.
bool next_choices(const Problem& problem, std::span<const std::size_t> nodes,
                  std::vector<std::size_t>& choices) {
  for (std::size_t at = nodes.size(); at-- > 0;) {
    if (++choices[nodes[at]] < problem.choices(nodes[at])) return true;
    choices[nodes[at]] = 0;
  }
  return false;
}

std::string bytes_text(double bytes) {
  constexpr double most = 1e18;  // 64 bits have room for it
  return bytes < most ? format_bytes(static_cast<std::int64_t>(bytes))
                      : format("{:.1e} bytes", bytes);
}

}  // namespace

Elimination::Elimination(const Problem& problem, const EliminationOrder& order,
                         std::span<const std::size_t> kept)
    : order_(order), sizes_(order.nodes.size()), best_(order.nodes.size()) {
  Gatherer gatherer(problem, order);
  double constant = 0;
  for (std::size_t at = 0; at < order.nodes.size(); ++at) {
    const std::size_t node = order.nodes[at];
    for (const std::size_t other : order.neighbours[at])
      sizes_[at].push_back(problem.choices(other));
    Message message{order.neighbours[at], {}};
    minimize(problem.nodes[node].comp, gatherer.factors_of(node, message.scope), sizes_[at],
             message.costs, best_[at]);
    gatherer.free_messages_of(node);
    if (message.scope.empty())
      constant += message.costs.front();
    else
      gatherer.add(std::move(message));
  }
  // What is left is over the kept nodes alone.
  std::vector<std::size_t> choices(problem.nodes.size());
  do {
    double cost = constant;
    for (const std::size_t node : kept)
      cost += problem.nodes[node].comp[choices[node]] + gatherer.messages_cost(node, choices);
    for (const Edge& edge : problem.edges)
      if (order.place[edge.src] >= problem.nodes.size() &&
          order.place[edge.dst] >= problem.nodes.size())
        cost += problem.comm(edge, choices[edge.src], choices[edge.dst]);
    costs_.push_back(cost);
  } while (next_choices(problem, kept, choices));
}

void Elimination::complete(std::span<std::size_t> choices) const {
  for (std::size_t at = order_.nodes.size(); at-- > 0;) {
    std::size_t entry = 0;
    for (std::size_t axis = 0; axis < sizes_[at].size(); ++axis)
      entry = entry * sizes_[at][axis] + choices[order_.neighbours[at][axis]];
    choices[order_.nodes[at]] = best_[at][entry];
  }
}

std::string excess_of(const Problem& problem, const EliminationOrder& order, const Limits& limits,
                      std::string_view name) {
  if (order.bytes <= limits.bytes) return "";
  std::size_t most = 0;
  for (const Node& node : problem.nodes) most = std::max(most, node.comp.size());
  return format(
      "{}: its tables would take {}, and {} are allowed: the best order has width {}, a table over "
      "{} nodes of up to {} choices; use o2, ilp-tight, or fewer choices",
      name, bytes_text(order.bytes), bytes_text(limits.bytes), order.width, order.width, most);
}

Outcome eliminate(const Problem& problem, const Limits& limits) {
  std::variant<Pruned, Refused> maybe = prune(problem);
  if (const auto* refused = std::get_if<Refused>(&maybe)) return *refused;
  std::vector<Pruned> steps{std::get<Pruned>(std::move(maybe))};
  EliminationOrder order = choose_order(steps.back().problem);
  const auto is_large = [&] {
    return order.entries > most_entries_at_once || order.bytes > limits.bytes;
  };
  // Each time the bound, and the assignment that it is compared with, are of the choices left.
  double before = forbidden;
  while (is_large() && order.entries < before / 2) {
    before = order.entries;
    maybe = prune(without_dear_choices(steps.back().problem, limits));
    if (const auto* refused = std::get_if<Refused>(&maybe)) return *refused;
    steps.push_back(std::get<Pruned>(std::move(maybe)));
    order = choose_order(steps.back().problem);
  }
  const Problem& fewer = steps.back().problem;
  if (std::string excess = excess_of(fewer, order, limits, "elimination"); !excess.empty())
    return Refused{ExitCode::does_not_fit, std::move(excess)};
  const Elimination elimination(fewer, order);
  if (elimination.costs().front() == forbidden) return no_assignment();
  Solution solution;
  solution.choices.resize(problem.nodes.size());
  elimination.complete(solution.choices);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    solution.choices = step->as_before(solution.choices);
  solution.cost = solution.lower_bound = cost_of(problem, solution.choices);
  solution.statistics = sizes_of(problem);
  solution.statistics.width = order.width;
  solution.statistics.visited = static_cast<std::uint64_t>(order.entries);
  return solution;
}

}  // namespace fourfold::solve
