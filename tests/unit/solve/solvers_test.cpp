#include "solve/solvers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "solve/cbc.h"
#include "solve/segments.h"
#include "solve/solution_text.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

/// What each solver that there is says of a problem; checks that each assignment costs what is said
/// of it, and no less than its bounds.
std::map<std::string, Outcome> all_outcomes(const Problem& problem,
                                            const std::vector<std::string>& without = {}) {
  std::map<std::string, Outcome> outcomes;
  for (const Solver& solver : solvers()) {
    const std::string name(solver.name);
    if (!has_cbc() && name.starts_with("ilp")) continue;
    if (std::ranges::count(without, name) > 0) continue;
    const Outcome& outcome = outcomes.emplace(name, solve(problem, name)).first->second;
    const auto* solution = std::get_if<Solution>(&outcome);
    if (solution == nullptr) continue;
    EXPECT_EQ(solution->cost, cost_of(problem, solution->choices)) << name;
    EXPECT_LT(solution->cost, forbidden) << name;
    EXPECT_LE(solution->lower_bound, solution->cost) << name;
    EXPECT_LE(solution->relaxation.value_or(0), solution->cost) << name;
  }
  return outcomes;
}

/// All solvers are exact but o2, which may be worse. Sums in another order differ by rounding, and
/// CBC may take an assignment for as good that is worse by 1e-9 of the largest cost.
double expect_agreement(const std::map<std::string, Outcome>& outcomes) {
  const Outcome& best = outcomes.at("elimination");
  const auto* exact = std::get_if<Solution>(&best);
  double gap = 0;
  for (const auto& [name, outcome] : outcomes) {
    SCOPED_TRACE(name);
    const auto* solution = std::get_if<Solution>(&outcome);
    if (name.starts_with("o2")) {
      if (solution == nullptr) continue;
      EXPECT_NE(exact, nullptr);
      EXPECT_GE(solution->cost, exact->cost * (1 - 1e-12));
      EXPECT_LE(solution->lower_bound, exact->cost * (1 + 1e-12));
      if (name == "o2-once" && exact->cost > 0) gap = solution->cost / exact->cost - 1;
      continue;
    }
    EXPECT_EQ(outcome.index(), best.index());
    if (solution == nullptr || exact == nullptr) continue;
    EXPECT_EQ(solution->bound, Bound::proved);
    EXPECT_NEAR(solution->cost, exact->cost, 1e-7 * (1 + exact->cost));
  }
  const auto* once = std::get_if<Solution>(&outcomes.at("o2-once"));
  const auto* again = std::get_if<Solution>(&outcomes.at("o2"));
  if (once != nullptr && again != nullptr)
    EXPECT_LE(again->cost, once->cost * (1 + 1e-12));
  else
    EXPECT_EQ(once, nullptr);
  return gap;
}

TEST(Solvers, agree_on_random_problems_of_every_shape) {
  std::size_t solved = 0, refused = 0;
  for (std::uint32_t seed = 0; seed < 320; ++seed) {
    const auto shape = static_cast<Shape>(seed % 5);
    const Problem problem =
        random_problem(seed, shape, seed % 4 * 0.1, shape == Shape::dense ? 8 : 14);
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_EQ(fault_of(problem), "");
    const std::map<std::string, Outcome> outcomes = all_outcomes(problem);
    expect_agreement(outcomes);
    ++(std::holds_alternative<Solution>(outcomes.at("exhaustive")) ? solved : refused);
  }
  EXPECT_GE(solved, 250U);
  EXPECT_GE(refused, 5U);
}

TEST(Solvers, o2_is_exact_where_no_edge_jumps) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Problem problem = random_problem(seed, seed % 2 == 0 ? Shape::chain : Shape::diamonds, 0, 13);
    for (Node& node : problem.nodes) node.is_heavy = true;
    const Solution segments = std::get<Solution>(solve(problem, "o2-once")),
                   exact = std::get<Solution>(solve(problem, "elimination"));
    EXPECT_EQ(segments.statistics.jumping, 0U);
    EXPECT_EQ(segments.bound, Bound::proved);
    EXPECT_NEAR(segments.cost, exact.cost, 1e-12 * (1 + exact.cost));
  }
}

TEST(Solvers, o2_says_where_edges_that_jump_forbid_what_it_found) {
  // The first and the last of three must differ; the middle one, which is cheap to follow, does not
  // tell.
  Problem problem;
  problem.nodes.resize(3, {"", {0, 1}, true});
  problem.edges = {
      {0, 1, {0, 9, 9, 0}}, {1, 2, {0, 9, 9, 0}}, {0, 2, {forbidden, 0, 0, forbidden}}};
  const Outcome outcome = solve_segments(problem, {});
  EXPECT_NE(std::get<Refused>(outcome).reason.find("as 1 edge jump"), std::string::npos)
      << std::get<Refused>(outcome).reason;
  EXPECT_EQ(std::get<Solution>(solve(problem, "o3")).cost, 10);
  EXPECT_EQ(std::get<Solution>(solve(problem, "o2")).cost, 10);
}

TEST(Solvers, agree_on_a_gpt_of_24_layers) {
  const std::map<std::string, Outcome> outcomes =
      all_outcomes(MadeGpt(24).problem, {"exhaustive", "ilp"});
  EXPECT_EQ(expect_agreement(outcomes), 0);
  const Statistics& segments = std::get<Solution>(outcomes.at("o2-once")).statistics;
  EXPECT_EQ(segments.critical, 97U);
  EXPECT_EQ(segments.segments, 96U);
  EXPECT_EQ(segments.jumping, 48U);
  EXPECT_EQ(std::get<Solution>(outcomes.at("o3")).statistics.cones, 147U);
  EXPECT_EQ(std::get<Solution>(outcomes.at("elimination")).statistics.width, 2U);
  // The paper's form has a weak bound; few layers show that it is right.
  expect_agreement(all_outcomes(MadeGpt(2).problem, {"exhaustive"}));
}

TEST(Solvers, agree_on_the_training_of_24_layers_and_o2_is_paid_for_edges_that_jump) {
  const Problem problem = MadeGpt(24, MadeGpt::Pass::training).problem;
  ASSERT_EQ(fault_of(problem), "");
  const std::map<std::string, Outcome> outcomes = all_outcomes(problem, {"exhaustive", "ilp"});
  const double gap = expect_agreement(outcomes);
  const double again = std::get<Solution>(outcomes.at("o2")).cost /
                           std::get<Solution>(outcomes.at("elimination")).cost -
                       1;
  EXPECT_NEAR(gap, 0.2425, 1e-3);
  EXPECT_NEAR(again, 0.0013, 1e-4);
  const Statistics& segments = std::get<Solution>(outcomes.at("o2-once")).statistics;
  EXPECT_EQ(segments.jumping, 580U);
  // Weights are read by both passes, so that nearly all nodes are roots.
  EXPECT_EQ(std::get<Solution>(outcomes.at("o3")).statistics.cones, 777U);
  EXPECT_EQ(std::get<Solution>(outcomes.at("elimination")).statistics.width, 4U);
}

TEST(Solvers, equal_problems_have_equal_bytes) {
  const std::vector<Problem> problems{random_problem(8, Shape::sparse, 0.1),
                                      random_problem(4, Shape::dense, 0, 6), MadeGpt(3).problem};
  for (const Solver& solver : solvers())
    for (const Problem& problem : problems) {
      if (problem.nodes.size() > 20 && (solver.name == "exhaustive" || solver.name == "ilp"))
        continue;
      const Outcome first = solve(problem, solver.name);
      for (int again = 0; again < 4; ++again) {
        const Outcome same = solve(problem, solver.name);
        ASSERT_EQ(first, same) << solver.name;
        const auto* solution = std::get_if<Solution>(&same);
        if (solution == nullptr) continue;
        EXPECT_EQ(solution_json(problem, solver.name, *solution).dump(),
                  solution_json(problem, solver.name, std::get<Solution>(first)).dump());
      }
    }
}

TEST(Solvers, refuse_what_has_no_assignment_and_what_is_too_large) {
  // Each node must differ from the other two, with two choices.
  Problem problem;
  problem.nodes.resize(3, {"", {0, 0}});
  for (const auto& [src, dst] : {std::pair(0U, 1U), std::pair(1U, 2U), std::pair(0U, 2U)})
    problem.edges.push_back({src, dst, {forbidden, 0, 0, forbidden}});
  for (const auto& [name, outcome] : all_outcomes(problem)) {
    if (name.starts_with("o2")) continue;
    EXPECT_TRUE(std::get<Refused>(outcome).reason.starts_with("no assignment is allowed: "))
        << name << ": " << std::get<Refused>(outcome).reason;
    EXPECT_EQ(std::get<Refused>(outcome).code, ExitCode::does_not_fit);
  }
  const Outcome large = solve(long_chain(15, 4, 1), "exhaustive");
  EXPECT_EQ(std::get<Refused>(large).reason,
            "exhaustive: 15 nodes have 1.1e+09 assignments; it tries 2e+07 of 1000 nodes at most: "
            "use elimination, or o3");
}

TEST(Solvers, may_be_stood_in_for_by_o2_where_a_problem_is_too_large) {
  const Problem large = long_chain(15, 4, 1);
  const Solution near = std::get<Solution>(solve(large, "exhaustive", {.or_near = true}));
  EXPECT_EQ(near, std::get<Solution>(solve(large, "o2")));
  const Problem small = long_chain(5, 3, 1);
  const Solution exact = std::get<Solution>(solve(small, "exhaustive", {.or_near = true}));
  EXPECT_EQ(exact, std::get<Solution>(solve(small, "exhaustive")));
}

TEST(Solvers, an_unknown_name_is_told_which_there_are) {
  try {
    find_solver("eliminate");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "no solver is called 'eliminate'; did you mean elimination? there are elimination, "
        "o3, o2, o2-once, ilp, ilp-tight, exhaustive");
    EXPECT_EQ(error.code(), ExitCode::bad_config);
  }
}

TEST(SolutionText, says_cost_bound_figures_and_choices) {
  const Problem problem{{{"a", {1, 2}}, {"", {0.5, 4}}}, {{0, 1, {9, 0, 0, 9}}}};
  const Solution solution = std::get<Solution>(solve(problem, "elimination"));
  EXPECT_EQ(solution_text(problem, "elimination", solution),
            "problem      2 nodes, 1 edge, 4 assignments\n"
            "solver       elimination\n"
            "cost         2.5\n"
            "lower bound  2.5  proved: the solver is exact\n"
            "width        1\n"
            "visited      6\n"
            "\n"
            "node    choice  costs\n"
            "'a'          1  2\n"
            "node 1       0  0.5\n");
  EXPECT_EQ(solution_json(problem, "elimination", solution).dump(),
            R"({"solver":"elimination","cost":2.5,"lower_bound":2.5,"bound":"proved",)"
            R"("relaxation":null,"statistics":{"nodes":2,"edges":1,"width":1,"cones":null,)"
            R"("critical":null,"segments":null,"jumping":null,"columns":null,"visited":6},)"
            R"("nodes":[{"name":"a","choice":1},{"choice":0}]})");
}

}  // namespace
}  // namespace fourfold::solve
