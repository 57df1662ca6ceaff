#include "solve/problem.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::solve {
namespace {

bool is_cost(double value) {
  return value == forbidden || (value >= 0 && value <= most_cost);  // false for NaN
}

std::string cost_fault(const std::string& place, double value) {
  return format("{}: a cost is a number from 0 to {}, or forbidden; got {}", place, most_cost,
                value);
}

std::string node_fault(const Problem& problem, std::size_t index) {
  const Node& node = problem.nodes[index];
  const std::string place = format("nodes[{}].comp", index);
  if (node.comp.empty()) return place + ": a node has at least one choice; got none";
  if (node.comp.size() > most_choices)
    return format("{}: a node has at most {} choices; got {}", place, most_choices,
                  node.comp.size());
  for (std::size_t choice = 0; choice < node.comp.size(); ++choice)
    if (!is_cost(node.comp[choice]))
      return cost_fault(format("{}[{}]", place, choice), node.comp[choice]);
  if (std::ranges::all_of(node.comp, [](double cost) { return cost == forbidden; }))
    return format("{}: all choices of {} are forbidden; allow one", place, name_of(problem, index));
  return "";
}

std::string edge_fault(const Problem& problem, std::size_t index) {
  const Edge& edge = problem.edges[index];
  const std::string place = format("edges[{}]", index);
  for (const auto& [end, node] : {std::pair("src", edge.src), std::pair("dst", edge.dst)})
    if (node >= problem.nodes.size())
      return format("{}.{}: there is no node {}; nodes are 0 to {}", place, end, node,
                    problem.nodes.size() - 1);
  if (edge.src == edge.dst)
    return format("{}: leads from {} to itself; add its costs to the node's comp", place,
                  name_of(problem, edge.src));
  const std::size_t rows = problem.choices(edge.src), columns = problem.choices(edge.dst);
  if (edge.comm.size() != rows * columns)
    return format("{}.comm: expected {} x {} costs, a row for each choice of {}; got {}", place,
                  rows, columns, name_of(problem, edge.src), edge.comm.size());
  for (std::size_t at = 0; at < edge.comm.size(); ++at)
    if (!is_cost(edge.comm[at]))
      return cost_fault(format("{}.comm[{}][{}]", place, at / columns, at % columns),
                        edge.comm[at]);
  if (std::ranges::all_of(edge.comm, [](double cost) { return cost == forbidden; }))
    return format("{}.comm: all pairs of {} and {} are forbidden; allow one", place,
                  name_of(problem, edge.src), name_of(problem, edge.dst));
  return "";
}

std::string names_fault(const Problem& problem) {
  std::unordered_map<std::string, std::size_t> known;
  for (std::size_t node = 0; node < problem.nodes.size(); ++node) {
    const std::string& name = problem.nodes[node].name;
    if (name.empty()) continue;
    const auto [same, is_new] = known.emplace(name, node);
    if (!is_new)
      return format("nodes[{}].name: '{}' is the name of node {} already; names differ", node, name,
                    same->second);
  }
  return "";
}

/// The nodes of one cycle, the lowest number first, where not all nodes have an order.
std::string cycle_fault(const Problem& problem, const std::vector<std::size_t>& order) {
  std::vector<bool> is_ordered(problem.nodes.size());
  for (const std::size_t node : order) is_ordered[node] = true;
  // Every node without an order follows another one: going back comes to a node for the second
  // time.
  std::vector<std::size_t> before(problem.nodes.size());
  for (const Edge& edge : problem.edges)
    if (!is_ordered[edge.src]) before[edge.dst] = edge.src;
  std::size_t node = 0;
  while (is_ordered[node]) ++node;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) node = before[node];
  std::vector<std::size_t> cycle{node};
  for (std::size_t at = before[node]; at != node; at = before[at]) cycle.push_back(at);
  std::ranges::reverse(cycle);
  std::ranges::rotate(cycle, std::ranges::min_element(cycle));
  constexpr std::size_t most_shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(cycle.size(), most_shown); ++i)
    text += name_of(problem, cycle[i]) + " -> ";
  if (cycle.size() > most_shown) text += "... -> ";
  return format("edges: lead in a circle: {}{}; turn one round", text,
                name_of(problem, cycle.front()));
}

}  // namespace

std::string fault_of(const Problem& problem) {
  if (problem.nodes.empty()) return "nodes: a problem has at least one node; got none";
  std::string fault = names_fault(problem);
  for (std::size_t node = 0; node < problem.nodes.size() && fault.empty(); ++node)
    fault = node_fault(problem, node);
  for (std::size_t edge = 0; edge < problem.edges.size() && fault.empty(); ++edge)
    fault = edge_fault(problem, edge);
  if (!fault.empty()) return fault;
  const std::vector<std::size_t> order = order_of(problem);
  return order.size() < problem.nodes.size() ? cycle_fault(problem, order) : "";
}

std::string name_of(const Problem& problem, std::size_t node) {
  const std::string& name = problem.nodes[node].name;
  return name.empty() ? format("node {}", node) : format("'{}'", name);
}

EdgesOfNodes::EdgesOfNodes(const Problem& problem)
    : in(problem.nodes.size()), out(problem.nodes.size()) {
  for (std::size_t edge = 0; edge < problem.edges.size(); ++edge) {
    out[problem.edges[edge].src].push_back(edge);
    in[problem.edges[edge].dst].push_back(edge);
  }
}

std::vector<std::size_t> order_of(const Problem& problem) {
  const EdgesOfNodes edges(problem);
  std::vector<std::size_t> left(problem.nodes.size()), order;
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t node = 0; node < left.size(); ++node) {
    left[node] = edges.in[node].size();
    if (left[node] == 0) ready.push(node);
  }
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const std::size_t edge : edges.out[node])
      if (--left[problem.edges[edge].dst] == 0) ready.push(problem.edges[edge].dst);
  }
  return order;
}

std::vector<Edge> joined_edges(const Problem& problem) {
  std::vector<Edge> edges;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> known;
  for (const Edge& edge : problem.edges) {
    const auto [same, is_new] = known.emplace(std::minmax(edge.src, edge.dst), edges.size());
    if (is_new) {
      edges.push_back(edge);
      continue;
    }
    // No two edges lead opposite ways: that would be a cycle.
    std::vector<double>& sum = edges[same->second].comm;
    for (std::size_t at = 0; at < sum.size(); ++at) sum[at] += edge.comm[at];
  }
  return edges;
}

double cost_of(const Problem& problem, std::span<const std::size_t> choices) {
  require(choices.size() == problem.nodes.size(), "an assignment has a choice for each node");
  double cost = 0;
  for (std::size_t node = 0; node < choices.size(); ++node)
    cost += problem.nodes[node].comp[choices[node]];
  for (const Edge& edge : problem.edges)
    cost += problem.comm(edge, choices[edge.src], choices[edge.dst]);
  return cost;
}

double num_assignments(const Problem& problem) {
  double number = 1;
  for (const Node& node : problem.nodes) number *= static_cast<double>(node.comp.size());
  return number;
}

}  // namespace fourfold::solve
