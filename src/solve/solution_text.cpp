#include "solve/solution_text.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::solve {
namespace {

/// "lower bound  12  the cost is proved".
std::string bound_reason(Bound bound) {
  switch (bound) {
    case Bound::proved:
      return "proved: the solver is exact";
    case Bound::relaxation:
      return "the relaxation of the tight integer program, or its dual";
    case Bound::branches:
      return "the least that CBC had not excluded when its branches were used up";
    case Bound::segments:
      return "the segments alone, without the edges that jump over critical nodes";
  }
  fail_internal("a bound is of a known kind");
}

std::string gap_text(double cost, double bound) {
  if (bound <= 0 || cost <= bound) return "";
  return format("; the cost is {:.3g} % above", 100 * (cost / bound - 1));
}

/// The figures of the method that found the solution.
std::vector<std::pair<std::string_view, std::optional<std::size_t>>> figures_of(
    const Statistics& statistics) {
  return {{"width", statistics.width},       {"cones", statistics.cones},
          {"critical", statistics.critical}, {"segments", statistics.segments},
          {"jumping", statistics.jumping},   {"columns", statistics.columns}};
}

}  // namespace

std::string solution_text(const Problem& problem, std::string_view solver,
                          const Solution& solution) {
  const auto grouped = [](std::size_t number) {
    return format_grouped(static_cast<std::int64_t>(number));
  };
  const Statistics& statistics = solution.statistics;
  std::string text = format("{:<12} {}, {}, {:.3g} assignments\n", "problem",
                            counted(static_cast<std::int64_t>(statistics.nodes), "node"),
                            counted(static_cast<std::int64_t>(statistics.edges), "edge"),
                            num_assignments(problem));
  text += format("{:<12} {}\n{:<12} {}\n", "solver", solver, "cost", solution.cost);
  text += format("{:<12} {}  {}{}\n", "lower bound", solution.lower_bound,
                 bound_reason(solution.bound), gap_text(solution.cost, solution.lower_bound));
  if (solution.relaxation)
    text += format("{:<12} {}  of the tight integer program{}\n", "relaxation",
                   *solution.relaxation, gap_text(solution.cost, *solution.relaxation));
  for (const auto& [name, figure] : figures_of(statistics))
    if (figure) text += format("{:<12} {}\n", name, grouped(*figure));
  text += format("{:<12} {}\n\n", "visited", grouped(statistics.visited));
  std::size_t width = 4;
  for (std::size_t node = 0; node < problem.nodes.size(); ++node)
    width = std::max(width, name_of(problem, node).size());
  text += format("{:<{}}  {:>6}  {}\n", "node", width, "choice", "costs");
  for (std::size_t node = 0; node < problem.nodes.size(); ++node)
    text += format("{:<{}}  {:>6}  {}\n", name_of(problem, node), width, solution.choices[node],
                   problem.nodes[node].comp[solution.choices[node]]);
  return text;
}

Json solution_json(const Problem& problem, std::string_view solver, const Solution& solution) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json statistics =
      Json::object({{"nodes", solution.statistics.nodes}, {"edges", solution.statistics.edges}});
  for (const auto& [name, figure] : figures_of(solution.statistics))
    statistics.set(std::string(name), or_null(figure));
  statistics.set("visited", solution.statistics.visited);
  Json choices = Json::array();
  for (std::size_t node = 0; node < problem.nodes.size(); ++node) {
    Json choice = Json::object();
    if (!problem.nodes[node].name.empty()) choice.set("name", problem.nodes[node].name);
    choices.push(std::move(choice.set("choice", solution.choices[node])));
  }
  return Json::object({{"solver", solver},
                       {"cost", solution.cost},
                       {"lower_bound", solution.lower_bound},
                       {"bound", to_string(solution.bound)},
                       {"relaxation", or_null(solution.relaxation)},
                       {"statistics", std::move(statistics)},
                       {"nodes", std::move(choices)}});
}

}  // namespace fourfold::solve
