// Bytes as an assignment problem: one that is read is written and read back, and a small one is
// solved by elimination as by trying all; or UserError with code 3.
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "fuzz/target.h"
#include "solve/problem_file.h"
#include "solve/solvers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  try {
    const solve::Problem problem = solve::read_problem(text, "fuzz");
    require(solve::read_problem(solve::problem_text(problem), "again") == problem,
            "a problem reads back from its text");
    const solve::Limits limits{.assignments = 1e4, .bytes = 1e6};
    const solve::Outcome all = solve::solve(problem, "exhaustive", limits),
                         exact = solve::solve(problem, "elimination", limits);
    const auto* one = std::get_if<solve::Solution>(&all);
    const auto* other = std::get_if<solve::Solution>(&exact);
    if (one != nullptr)
      require(other != nullptr && std::abs(one->cost - other->cost) <= 1e-9 * one->cost,
              "what all assignments show is found by elimination");
  } catch (const UserError& error) {
    require(error.code() == ExitCode::bad_data, "a bad problem ends with its own code");
  }
  return 0;
}
