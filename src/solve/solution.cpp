#include "solve/solution.h"

#include <algorithm>

#include "base/format.h"

namespace fourfold::solve {

std::string_view to_string(Bound bound) {
  switch (bound) {
    case Bound::proved:
      return "proved";
    case Bound::relaxation:
      return "relaxation";
    case Bound::branches:
      return "branches";
    case Bound::segments:
      return "segments";
  }
  fail_internal("a bound is of a known kind");
}

Statistics sizes_of(const Problem& problem) {
  Statistics statistics;
  statistics.nodes = problem.nodes.size();
  statistics.edges = problem.edges.size();
  return statistics;
}

void add_bound(double relaxation, Solution& solution) {
  relaxation = std::min(relaxation, solution.cost);
  if (relaxation <= solution.lower_bound) return;
  solution.lower_bound = relaxation;
  solution.bound = Bound::relaxation;
}

Refused no_assignment(std::string_view what) {
  return {ExitCode::does_not_fit,
          format("no assignment is allowed: {}; allow more choices or pairs",
                 what.empty() ? "each has a forbidden choice or pair" : what)};
}

}  // namespace fourfold::solve
