#include "solve/share.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "solve/solvers.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

/// The least cost of assignments in which nodes of one group choose what means the same.
double least_shared(const Problem& problem, const std::vector<std::size_t>& groups,
                    const Meanings& meanings) {
  std::vector<std::size_t> choices(problem.nodes.size());
  double least = forbidden;
  for (bool goes_on = true; goes_on;) {
    bool is_shared = true;
    for (std::size_t a = 0; a < choices.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        is_shared = is_shared &&
                    (groups[a] != groups[b] || meanings[a][choices[a]] == meanings[b][choices[b]]);
    if (is_shared) least = std::min(least, cost_of(problem, choices));
    goes_on = false;
    for (std::size_t at = choices.size(); at-- > 0 && !goes_on;) {
      goes_on = ++choices[at] < problem.choices(at);
      if (!goes_on) choices[at] = 0;
    }
  }
  return least;
}

TEST(Share, costs_what_the_best_shared_assignment_does) {
  std::size_t shared_nodes = 0;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 4), 0, 8);
    Draw draw(seed);
    // A node joins the group of an earlier one that no edge leads to or from.
    std::vector<std::size_t> groups(problem.nodes.size());
    for (std::size_t node = 0; node < groups.size(); ++node) {
      groups[node] = node;
      const std::size_t with = groups[draw.below(node + 1)];
      const bool has_edge = std::ranges::any_of(problem.edges, [&](const Edge& edge) {
        return (edge.src == node && groups[edge.dst] == with) ||
               (edge.dst == node && groups[edge.src] == with);
      });
      if (!has_edge) groups[node] = with;
    }
    // Meaning m is choice m + 1 of every other node, so that choices differ and some are missing.
    Meanings meanings;
    for (std::size_t node = 0; node < groups.size(); ++node) {
      std::vector<std::size_t>& list = meanings.emplace_back();
      for (std::size_t choice = 0; choice < problem.choices(node); ++choice)
        list.push_back((choice + node % 2) % problem.choices(node));
    }
    const Shared shared = share(problem, groups, meanings);
    ASSERT_EQ(fault_of(shared.problem), "");
    shared_nodes += problem.nodes.size() - shared.problem.nodes.size();
    const double least = least_shared(problem, groups, meanings);
    const Outcome outcome = solve(shared.problem, usual_solver);
    const auto* solution = std::get_if<Solution>(&outcome);
    ASSERT_NE(solution, nullptr);
    EXPECT_NEAR(solution->cost, least, 1e-9 * (1 + least));
    EXPECT_NEAR(cost_of(problem, shared.whole(solution->choices)), solution->cost,
                1e-9 * (1 + least));
  }
  EXPECT_GT(shared_nodes, 100U);
}

TEST(Share, leaves_a_node_alone_that_has_no_choice_in_common) {
  const Problem problem{{{"a", {1, 2}}, {"b", {3, 4}}, {"c", {5}}}, {}};
  const std::vector<std::size_t> groups = {7, 7, 7};
  const Shared shared = share(problem, groups, {{0, 1}, {1, 2}, {3}});
  ASSERT_EQ(shared.problem.nodes.size(), 2U);
  EXPECT_EQ(shared.problem.nodes[0].name, "a");
  EXPECT_EQ(shared.problem.nodes[0].comp, std::vector<double>{5}) << "2 of a and 3 of b";
  EXPECT_EQ(shared.problem.nodes[1].comp, std::vector<double>{5});
  EXPECT_EQ(shared.whole(std::vector<std::size_t>{0, 0}), (std::vector<std::size_t>{1, 0, 0}));
}

}  // namespace
}  // namespace fourfold::solve
