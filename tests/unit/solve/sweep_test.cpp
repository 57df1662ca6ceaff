#include "solve/sweep.h"

#include <gtest/gtest.h>

#include <numeric>

#include "solve/eliminate.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

TEST(Sweep, of_one_group_finds_the_least_cost) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 5), 0);
    const std::vector<std::size_t> groups(problem.nodes.size()), first(problem.nodes.size());
    const Swept swept = sweep(problem, groups, first, {});
    const double least = std::get<Solution>(eliminate(problem, {})).cost;
    EXPECT_NEAR(cost_of(problem, swept.choices), least, 1e-11 * (1 + least));
    EXPECT_LE(swept.sweeps, 2U);
  }
}

TEST(Sweep, ends_where_no_node_alone_is_better) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 5), 0);
    std::vector<std::size_t> groups(problem.nodes.size()), first(problem.nodes.size());
    std::iota(groups.begin(), groups.end(), 0);
    const std::vector<std::size_t> choices = sweep(problem, groups, first, {}).choices;
    const double cost = cost_of(problem, choices);
    EXPECT_LE(cost, cost_of(problem, first));
    for (std::size_t node = 0; node < choices.size(); ++node)
      for (std::size_t choice = 0; choice < problem.choices(node); ++choice) {
        std::vector<std::size_t> other = choices;
        other[node] = choice;
        EXPECT_GE(cost_of(problem, other), cost * (1 - 1e-9));
      }
  }
}

TEST(Sweep, an_assignment_that_is_forbidden_may_become_one_that_is_not) {
  const Problem problem{{{"", {0, 1}}, {"", {0, 1}}}, {{0, 1, {forbidden, 0, 0, 0}}}};
  const std::vector<std::size_t> groups{0, 1}, first{0, 0};
  EXPECT_EQ(cost_of(problem, sweep(problem, groups, first, {}).choices), 1);
}

TEST(Sweep, a_group_above_the_limit_stays_as_it_is) {
  const Problem problem = random_problem(3, Shape::dense, 0);
  const std::vector<std::size_t> groups(problem.nodes.size()), first(problem.nodes.size());
  EXPECT_EQ(sweep(problem, groups, first, {.bytes = 1}).choices, first);
}

}  // namespace
}  // namespace fourfold::solve
