// An assignment problem as a JSON file:
//   {"nodes": [{"name": "qkv", "comp": [1.5, 2, null], "heavy": true}, {"comp": [0, 3]}],
//    "edges": [{"src": "qkv", "dst": 1, "comm": [[0, 1], [2, null], [0, 0]]}]}
// `comp` has the cost of each choice, `comm` a row for each choice of `src`; null is forbidden. An
// end of an edge is a name, or a number from 0 on. `name` and `heavy` may be left out.
#pragma once

#include <string>
#include <string_view>

#include "solve/problem.h"

namespace fourfold::solve {

/// Errors: UserError(bad_data) that begins with `file` and the place ("nodes[3].comp[0]").
Problem read_problem(std::string_view text, const std::string& file);

/// The problem in a file that a person named. Errors: UserError(bad_data), also for what is no
/// file.
Problem load_problem(const std::string& path);

/// The text that read_problem takes: ends by number, names where there are some. A line for each
/// node and edge.
std::string problem_text(const Problem& problem);

}  // namespace fourfold::solve
