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

/// Solves a problem that has no fault; a solution of another solver (Limits::or_near) says by its
/// bound that it is not proved. Equal problems have equal outcomes, with the same bits.
Outcome solve(const Problem& problem, std::string_view solver, const Limits& limits = {});

/// Raises the lower bound of a solution that is not proved, by as much as raise_bound can.
void raise_lower_bound(const Problem& problem, Solution& solution);

}  // namespace fourfold::solve
