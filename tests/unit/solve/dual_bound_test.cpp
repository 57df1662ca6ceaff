#include "solve/dual_bound.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "solve/elimination_order.h"
#include "solve/prune.h"
#include "solve/solvers.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

TEST(DualBound, is_below_every_assignment_and_reaches_the_best_without_circles) {
  std::size_t compared = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const auto shape = static_cast<Shape>(seed % 5);
    const auto pruned = prune(random_problem(seed, shape, seed % 2 * 0.1, 9));
    if (std::holds_alternative<Refused>(pruned)) continue;
    const Problem& problem = std::get<Pruned>(pruned).problem;
    const Outcome best = solve(problem, "exhaustive");
    if (std::holds_alternative<Refused>(best)) continue;
    const double least = std::get<Solution>(best).cost;
    const DualBound raised = raise_bound(problem, 500);
    EXPECT_LE(raised.bound, least * (1 + 1e-12));
    if (shape == Shape::chain || shape == Shape::tree) {
      EXPECT_NEAR(raised.bound, least, 1e-4 * (1 + least));
    }
    // Each choice alone costs at least as much as is said of it.
    for (std::size_t node = 0; node < problem.nodes.size(); ++node)
      for (std::size_t choice = 0; choice < problem.choices(node); ++choice) {
        Problem only = problem;
        for (std::size_t other = 0; other < only.choices(node); ++other)
          if (other != choice) only.nodes[node].comp[other] = forbidden;
        const Outcome with_choice = solve(only, "exhaustive");
        const auto* solution = std::get_if<Solution>(&with_choice);
        if (solution == nullptr) continue;
        EXPECT_LE(raised.bound + raised.more[node][choice], solution->cost * (1 + 1e-9) + 1e-9);
        ++compared;
      }
  }
  EXPECT_GT(compared, 900U);
}

TEST(DualBound, what_it_excludes_no_best_assignment_needs) {
  double before = 0, after = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const auto pruned = prune(random_problem(seed, static_cast<Shape>(seed % 5), 0.05, 10));
    if (std::holds_alternative<Refused>(pruned)) continue;
    const Problem& problem = std::get<Pruned>(pruned).problem;
    const Outcome best = solve(problem, "exhaustive");
    if (std::holds_alternative<Refused>(best)) continue;
    const Problem fewer = without_dear_choices(problem, {});
    const double least = std::get<Solution>(best).cost;
    EXPECT_NEAR(std::get<Solution>(solve(fewer, "exhaustive")).cost, least, 1e-12 * (1 + least));
    for (std::size_t node = 0; node < problem.nodes.size(); ++node) {
      before += static_cast<double>(problem.choices(node));
      after += static_cast<double>(std::ranges::count_if(
          fewer.nodes[node].comp, [](double cost) { return cost < forbidden; }));
    }
  }
  EXPECT_LT(after, 0.7 * before);
}

TEST(DualBound, lets_elimination_solve_what_its_tables_have_no_room_for) {
  const Problem problem = MadeGpt(8, MadeGpt::Pass::training).problem;
  const Solution wide = std::get<Solution>(solve(problem, "elimination"));
  const auto pruned = prune(problem);
  const double bytes = choose_order(std::get<Pruned>(pruned).problem).bytes;
  const Solution narrow = std::get<Solution>(solve(problem, "elimination", {.bytes = bytes / 2}));
  EXPECT_EQ(narrow.cost, wide.cost);
  EXPECT_LT(narrow.statistics.visited, wide.statistics.visited / 2);
}

TEST(DualBound, raises_the_lower_bound_of_o2) {
  const Problem problem = MadeGpt(8, MadeGpt::Pass::training).problem;
  Solution solution = std::get<Solution>(solve(problem, "o2"));
  const double least = std::get<Solution>(solve(problem, "elimination")).cost;
  EXPECT_LT(solution.lower_bound, 0.95 * least);
  raise_lower_bound(problem, solution);
  EXPECT_EQ(solution.bound, Bound::relaxation);
  EXPECT_GT(solution.lower_bound, 0.999 * least);
  EXPECT_LE(solution.lower_bound, least);
}

}  // namespace
}  // namespace fourfold::solve
