// An assignment problem as an integer program, in two forms. Both have a column X for each choice
// of a node and A for each pair of an edge; one choice of each node is taken.
//   paper: A_ij >= X_i + X_j - 1 (Zhang et al. 2023, "Rhino", section 4.2): a weak bound, as all A
//          are 0 where each X is below a half
//   tight: sum_j A_ij = X_i and sum_i A_ij = X_j, whose relaxation is seldom below the best
// The tight form has one edge for all between two nodes: apart, their A would be less tight.
// A needs not be whole: with whole X the least A is.
#pragma once

#include <cstdint>
#include <optional>

#include "solve/integer_program.h"
#include "solve/problem.h"
#include "solve/solution.h"

namespace fourfold::solve {

enum class Form : std::uint8_t { paper, tight };

/// The columns of the nodes' choices come first, node by node.
IntegerProgram program_of(const Problem& problem, Form form);

/// By CBC. The tight form's relaxation is solved too, and told. Refuses where there is no CBC, and
/// where its branches are used up before it has an assignment.
Outcome solve_paper_form(const Problem& problem, const Limits& limits);
Outcome solve_tight_form(const Problem& problem, const Limits& limits);

/// The value of the tight form's relaxation: no assignment costs less. Nothing where there is no
/// CBC, or no assignment.
std::optional<double> relaxation_of(const Problem& problem);

}  // namespace fourfold::solve
