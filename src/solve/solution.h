// What a solver finds: an assignment, what it costs, and below which cost there is none; or why it
// finds nothing. Not how it is printed: solution_text.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "solve/problem.h"

namespace fourfold::solve {

/// Why no assignment costs less than the lower bound of a solution.
enum class Bound : std::uint8_t {
  proved,      // the cost itself: the solver is exact
  relaxation,  // the tight integer program without integers, or its dual (dual_bound.h)
  branches,    // what CBC had left when it had no branches any more
  segments     // the sum of the segments, without the edges that jump over critical nodes
};
std::string_view to_string(Bound bound);

/// What a solver met on its way; a field that its method does not know is empty.
struct Statistics {
  std::size_t nodes = 0, edges = 0;  // of the problem
  std::optional<std::size_t> width;  // the most nodes that one table of elimination is over
  std::optional<std::size_t> cones;
  std::optional<std::size_t> critical;  // critical nodes
  std::optional<std::size_t> segments;  // between these
  std::optional<std::size_t> jumping;   // edges that jump over a critical node
  std::optional<std::size_t> columns;   // of the integer program
  std::uint64_t visited = 0;            // assignments, entries of tables, or branches looked at
  bool operator==(const Statistics&) const = default;
};
/// The sizes of the problem, and nothing else.
Statistics sizes_of(const Problem& problem);

struct Solution {
  std::vector<std::size_t> choices;  // of each node
  double cost = 0;                   // finite: the sum that cost_of gives
  double lower_bound = 0;            // at most `cost`
  Bound bound = Bound::proved;
  std::optional<double> relaxation;  // the value of the tight form's, where it was solved
  Statistics statistics;
  bool operator==(const Solution&) const = default;
};

/// Takes a lower bound of the relaxation where it is higher than the solution's own.
void add_bound(double relaxation, Solution& solution);

/// No assignment: none is allowed, the solver would need too much, or its library is not there.
struct Refused {
  ExitCode code = ExitCode::does_not_fit;
  std::string reason;  // one line, with what to do
  bool operator==(const Refused&) const = default;
};

using Outcome = std::variant<Solution, Refused>;

/// Where solvers end: in numbers and bytes, never in seconds, so that equal problems have equal
/// solutions.
struct Limits {
  double assignments = 2e7;           // that `exhaustive` tries
  double bytes = 2.0 * (1ULL << 30);  // of all tables of elimination
  int branches = 100'000;             // nodes of CBC's tree
  /// Where the solver would need more than that, "o2" stands in for it, which is not exact.
  bool or_near = false;
};

/// What is said where every assignment has a forbidden choice or pair.
Refused no_assignment(std::string_view what = "");

}  // namespace fourfold::solve
