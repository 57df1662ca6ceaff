// A solution as people read it, and as JSON.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

/// Costs with all their digits; the choice of each node in a line.
std::string solution_text(const Problem& problem, std::string_view solver,
                          const Solution& solution);
/// What a method does not know is null.
Json solution_json(const Problem& problem, std::string_view solver, const Solution& solution);

}  // namespace fourfold::solve
