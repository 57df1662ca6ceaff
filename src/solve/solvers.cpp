#include "solve/solvers.h"

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "solve/cones.h"
#include "solve/dual_bound.h"
#include "solve/eliminate.h"
#include "solve/integer_forms.h"
#include "solve/prune.h"
#include "solve/segments.h"
#include "solve/try_all.h"

namespace fourfold::solve {
namespace {

constexpr std::array all_solvers{
    Solver{"elimination", "exact, node by node, in tables over their neighbours", eliminate},
    Solver{"o3", "exact, over cones: chains and their roots", solve_cones},
    Solver{"o2", "segments between critical nodes, then each again beside the others",
           solve_segments_again},
    Solver{"o2-once", "o2 as the paper writes it: each segment once", solve_segments},
    Solver{"ilp", "the integer program as the paper writes it, by CBC", solve_paper_form},
    Solver{"ilp-tight", "an integer program with a better bound, by CBC", solve_tight_form},
    Solver{"exhaustive", "every assignment, of a dozen nodes", try_all},
};

}  // namespace

std::span<const Solver> solvers() {
  return all_solvers;
}

const Solver& find_solver(std::string_view name) {
  const auto found = std::ranges::find(all_solvers, name, &Solver::name);
  if (found != all_solvers.end()) return *found;
  std::vector<std::string> names;
  for (const Solver& solver : all_solvers) names.emplace_back(solver.name);
  const auto near = nearest(name, names);
  throw UserError(ExitCode::bad_config,
                  format("no solver is called '{}'; {}there are {}", name,
                         near ? format("did you mean {}? ", *near) : "", join(names, ", ")));
}

Outcome solve(const Problem& problem, std::string_view solver, const Limits& limits) {
  require(fault_of(problem).empty(), "a problem that is solved has no fault");
  Outcome outcome = find_solver(solver).solve(problem, limits);
  if (!limits.or_near || std::holds_alternative<Solution>(outcome)) return outcome;
  Outcome near = solve_segments_again(problem, limits);
  return std::holds_alternative<Solution>(near) ? near : outcome;
}

void raise_lower_bound(const Problem& problem, Solution& solution) {
  constexpr std::size_t most_sweeps = 200;
  constexpr double rounding = 1e-9;  // of costs that are moved to and fro
  if (solution.bound == Bound::proved) return;
  const std::variant<Pruned, Refused> pruned = prune(problem);
  require(std::holds_alternative<Pruned>(pruned), "a problem with a solution has an assignment");
  const double bound = raise_bound(std::get<Pruned>(pruned).problem, most_sweeps).bound;
  add_bound(bound * (1 - rounding), solution);
}

}  // namespace fourfold::solve
