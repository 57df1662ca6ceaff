// The solvers of assignment problems by name, and one function that calls them.
#pragma once

#include <span>
#include <string_view>

#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

struct Solver {
  std::string_view name;
  std::string_view about;  // a phrase
  Outcome (*solve)(const Problem& problem, const Limits& limits);
};

/// All of them, also those whose library is not there.
std::span<const Solver> solvers();
/// "elimination": exact, without a library.
inline constexpr std::string_view usual_solver = "elimination";

/// Errors: UserError(bad_config) with the names that there are.
const Solver& find_solver(std::string_view name);

/// Solves a problem that has no fault. Equal problems have equal outcomes, with the same bits.
Outcome solve(const Problem& problem, std::string_view solver, const Limits& limits = {});

/// Where a solution is not proved and CBC is there, adds the relaxation over cones, which may take
/// longer than the solution itself.
void bound_by_relaxation(const Problem& problem, Solution& solution);

}  // namespace fourfold::solve
