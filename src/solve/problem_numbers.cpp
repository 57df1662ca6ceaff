#include "solve/problem_numbers.h"

#include <algorithm>
#include <variant>

#include "base/format.h"
#include "solve/cones.h"
#include "solve/critical_nodes.h"
#include "solve/elimination_order.h"
#include "solve/prune.h"

namespace fourfold::solve {

ProblemNumbers numbers_of(const Problem& problem) {
  ProblemNumbers numbers;
  numbers.nodes = problem.nodes.size();
  numbers.edges = joined_edges(problem).size();
  for (const Node& node : problem.nodes) {
    numbers.choices += node.comp.size();
    numbers.most_choices = std::max(numbers.most_choices, node.comp.size());
  }
  if (const auto maybe = prune(problem); const auto* pruned = std::get_if<Pruned>(&maybe)) {
    std::size_t left = 0;
    for (const Node& node : pruned->problem.nodes) left += node.comp.size();
    numbers.dropped = numbers.choices - left;
    numbers.width = choose_order(pruned->problem).width;
  }
  numbers.cones = Cones(problem).roots().size();
  const CriticalNodes critical = find_critical_nodes(problem);
  numbers.critical = critical.nodes.size();
  numbers.segments = critical.num_segments;
  return numbers;
}

std::string to_string(const ProblemNumbers& numbers) {
  return format(
      "{} nodes, {} edges; {} choices, up to {} of a node, {} dropped; width {}; {} cones; {} "
      "critical nodes, {} segments",
      numbers.nodes, numbers.edges, numbers.choices, numbers.most_choices, numbers.dropped,
      numbers.width, numbers.cones, numbers.critical, numbers.segments);
}

}  // namespace fourfold::solve
