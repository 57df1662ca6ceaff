#include "solve/prune.h"

#include <gtest/gtest.h>

#include "solve/try_all.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

TEST(Prune, keeps_the_least_cost) {
  std::size_t removed = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 5), seed % 2 * 0.2, 9);
    const auto pruned = prune(problem);
    const Outcome best = try_all(problem, {});
    if (std::holds_alternative<Refused>(pruned)) {
      EXPECT_TRUE(std::holds_alternative<Refused>(best));
      continue;
    }
    const Pruned& fewer = std::get<Pruned>(pruned);
    const Outcome same = try_all(fewer.problem, {});
    ASSERT_EQ(same.index(), best.index());
    if (std::holds_alternative<Refused>(best)) continue;
    const Solution& found = std::get<Solution>(same);
    EXPECT_NEAR(found.cost, std::get<Solution>(best).cost, 1e-12 * (1 + found.cost));
    EXPECT_NEAR(cost_of(problem, fewer.as_before(found.choices)), found.cost,
                1e-12 * (1 + found.cost));
    removed += static_cast<std::size_t>(num_assignments(problem) / num_assignments(fewer.problem));
  }
  EXPECT_GT(removed, 1000U);
}

TEST(Prune, of_two_choices_alike_the_first_stays) {
  const Problem problem{{{"", {1, 1, 0.5}}, {"", {0, 0}}}, {{0, 1, {0, 1, 0, 1, 9, 0}}}};
  const auto pruned = prune(problem);
  EXPECT_EQ(std::get<Pruned>(pruned).kept[0], (std::vector<std::size_t>{0, 2}));
}

TEST(Prune, what_a_sum_rounds_away_does_not_decide) {
  // Choice 0 of the middle node costs 5 more than choice 1 where its neighbours take their first
  // ones; differences of 1e100 that cancel hide it.
  const Problem problem{{{"", {0, 1e100}}, {"", {5, 0}}, {"", {0, 1e100}}},
                        {{0, 1, {1e100, 0, 0, 0}}, {1, 2, {0, 0, 1e100, 1e100}}}};
  const auto pruned = prune(problem);
  EXPECT_EQ(std::get<Pruned>(pruned).kept[1], (std::vector<std::size_t>{0, 1}));
}

TEST(Prune, a_node_that_loses_all_choices_is_named) {
  // b must be 1 for a, and 0 for c.
  const Problem problem{{{"a", {0}}, {"b", {0, 0}}, {"c", {0}}},
                        {{0, 1, {forbidden, 0}}, {1, 2, {0, forbidden}}}};
  EXPECT_EQ(std::get<Refused>(prune(problem)).reason,
            "no assignment is allowed: no choice of 'b' fits all its neighbours; allow more "
            "choices or pairs");
}

TEST(Prune, a_node_without_any_choice_is_named_too) {
  // As a chain leaves it from which no pair leads on.
  const Problem problem{{{"a", {0}}, {"b", {forbidden, forbidden}}}, {}};
  EXPECT_NE(std::get<Refused>(prune(problem)).reason.find("no choice of 'b'"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::solve
