// Why there is no plan.
#pragma once

#include <string>
#include <vector>

namespace fourfold::plan {

/// The keys at fault and what would work. A value, so that a search can go on.
struct Infeasible {
  struct Problem {
    std::vector<std::string> keys;
    std::string message;
  };
  std::vector<Problem> problems;
};

/// One line a problem.
std::string to_text(const Infeasible& infeasible);

}  // namespace fourfold::plan
