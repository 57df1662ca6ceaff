#include "solve/integer_forms.h"

#include <gtest/gtest.h>

#include "solve/cbc.h"
#include "solve/eliminate.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

/// A circle of three nodes that want to differ, with two choices each: two of them are alike.
Problem three_that_differ() {
  Problem problem;
  problem.nodes.resize(3, {"", {0, 0}});
  for (const auto& [src, dst] : {std::pair(0U, 1U), std::pair(1U, 2U), std::pair(0U, 2U)})
    problem.edges.push_back({src, dst, {1, 0, 0, 1}});
  return problem;
}

TEST(IntegerForms, have_a_column_for_each_choice_and_pair) {
  const Problem problem{{{"", {1, 2}}, {"", {3, forbidden, 5}}},
                        {{0, 1, {0, 1, 2, 3, 4, forbidden}}}};
  const IntegerProgram paper = program_of(problem, Form::paper),
                       tight = program_of(problem, Form::tight);
  // A pair that costs nothing needs none in the paper's form, and one that is forbidden in neither.
  EXPECT_EQ(paper.columns.size(), 5U + 4);
  EXPECT_EQ(tight.columns.size(), 5U + 5);
  EXPECT_EQ(paper.row_ends.size(), 2U + 5);
  EXPECT_EQ(tight.row_ends.size(), 2U + 2 + 3);
  EXPECT_EQ(paper.columns[3].most, 0);
  EXPECT_TRUE(tight.columns[0].is_whole);
  EXPECT_FALSE(tight.columns[5].is_whole);
}

TEST(IntegerForms, the_relaxation_bounds_the_cost_and_is_tight_without_circles) {
  if (!has_cbc()) GTEST_SKIP() << "this build has no CBC";
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Problem tree = random_problem(seed, Shape::tree, 0, 10);
    const double cost = std::get<Solution>(eliminate(tree, {})).cost;
    EXPECT_NEAR(relaxation_of(tree).value(), cost, 1e-7 * (1 + cost));
  }
  // Halves of all choices cost nothing.
  EXPECT_NEAR(relaxation_of(three_that_differ()).value(), 0, 1e-9);
  const Solution solution = std::get<Solution>(solve_tight_form(three_that_differ(), {}));
  EXPECT_EQ(solution.cost, 1);
  EXPECT_EQ(solution.lower_bound, 1);
  EXPECT_EQ(solution.bound, Bound::proved);
  EXPECT_NEAR(solution.relaxation.value(), 0, 1e-9);
}

TEST(IntegerForms, end_by_a_number_of_branches_with_what_is_known_then) {
  if (!has_cbc()) GTEST_SKIP() << "this build has no CBC";
  // The answer is an honest one, be the limit met or not.
  const Problem problem = MadeGpt(4).problem;
  const double least = std::get<Solution>(eliminate(problem, {})).cost;
  const Outcome outcome = solve_paper_form(problem, {.branches = 1});
  if (const auto* refused = std::get_if<Refused>(&outcome)) {
    EXPECT_NE(refused->reason.find("no assignment after"), std::string::npos);
    return;
  }
  const Solution& solution = std::get<Solution>(outcome);
  EXPECT_GE(solution.cost, least * (1 - 1e-12));
  EXPECT_LE(solution.lower_bound, least * (1 + 1e-7));
}

TEST(IntegerForms, without_cbc_are_refused_in_a_line) {
  if (has_cbc()) GTEST_SKIP() << "this build has CBC";
  for (const auto& solve_form : {solve_paper_form, solve_tight_form}) {
    const Outcome outcome = solve_form(three_that_differ(), Limits{});
    EXPECT_EQ(std::get<Refused>(outcome).code, ExitCode::environment);
    EXPECT_NE(std::get<Refused>(outcome).reason.find("this build has no CBC"), std::string::npos);
  }
  EXPECT_EQ(relaxation_of(three_that_differ()), std::nullopt);
}

}  // namespace
}  // namespace fourfold::solve
