#include "solve/problem_numbers.h"

#include <gtest/gtest.h>

#include "solve/solvers.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

TEST(ProblemNumbers, are_those_that_solvers_meet) {
  for (std::uint32_t seed = 0; seed < 15; ++seed) {
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 5), 0);
    const ProblemNumbers numbers = numbers_of(problem);
    const auto exact = solve(problem, "elimination"), cones = solve(problem, "o3"),
               segments = solve(problem, "o2-once");
    EXPECT_EQ(numbers.nodes, problem.nodes.size());
    EXPECT_EQ(numbers.width, std::get<Solution>(exact).statistics.width);
    EXPECT_EQ(numbers.cones, std::get<Solution>(cones).statistics.cones);
    EXPECT_EQ(numbers.critical, std::get<Solution>(segments).statistics.critical);
    EXPECT_EQ(numbers.segments, std::get<Solution>(segments).statistics.segments);
  }
}

TEST(ProblemNumbers, of_a_small_problem_are_a_line) {
  // The last choice of each node is dearer than another, whatever the other node does.
  const Problem problem{{{"a", {1, 2, 9}}, {"b", {3, 4, 9}}},
                        {{0, 1, {5, 0, 5, 0, 5, 5, 5, 5, 5}}, {0, 1, std::vector<double>(9)}}};
  EXPECT_EQ(to_string(numbers_of(problem)),
            "2 nodes, 1 edges; 6 choices, up to 3 of a node, 2 dropped; width 1; 1 cones; 1 "
            "critical nodes, 1 segments");
}

}  // namespace
}  // namespace fourfold::solve
