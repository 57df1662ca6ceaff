#include "solve/cones.h"

#include <gtest/gtest.h>

#include "solve/try_all.h"
#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

TEST(Cones, roots_take_from_several_give_to_several_or_give_to_none) {
  // 0 -> 1 -> 2 -> 3 -> 5, 2 -> 4 -> 5 -> 6 -> 7, and 8 -> 5.
  Problem problem;
  for (int node = 0; node < 9; ++node) problem.nodes.push_back({"", {1, 2}});
  const std::vector<double> equal{0, 3, 3, 0};
  for (const auto& [src, dst] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 1}, {1, 2}, {2, 3}, {3, 5}, {2, 4}, {4, 5}, {5, 6}, {6, 7}, {8, 5}})
    problem.edges.push_back({src, dst, equal});
  const Cones cones(problem);
  EXPECT_EQ(cones.roots(), (std::vector<std::size_t>{2, 5, 7}));
  // Chains by 3 and by 4, and one by 6.
  EXPECT_EQ(cones.problem().edges.size(), 3U);
  EXPECT_EQ(cones.problem().nodes[0].comp, (std::vector<double>{3, 6}));
  EXPECT_EQ(cones.problem().nodes[1].comp, (std::vector<double>{2, 4}));
  EXPECT_EQ(cones.problem().edges[2].comm, (std::vector<double>{1, 4, 4, 2}));
  EXPECT_EQ(cones.whole(std::vector<std::size_t>{1, 1, 0}),
            (std::vector<std::size_t>{1, 1, 1, 1, 1, 1, 0, 0, 1}));
}

TEST(Cones, lose_nothing) {
  std::size_t nodes = 0, roots = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 5), seed % 2 * 0.15, 9);
    const Cones cones(problem);
    nodes += problem.nodes.size();
    roots += cones.roots().size();
    const Outcome best = try_all(problem, {}), over_cones = try_all(cones.problem(), {});
    ASSERT_EQ(best.index(), over_cones.index());
    if (std::holds_alternative<Refused>(best)) continue;
    const Solution& found = std::get<Solution>(over_cones);
    EXPECT_NEAR(found.cost, std::get<Solution>(best).cost, 1e-12 * (1 + found.cost));
    EXPECT_NEAR(cost_of(problem, cones.whole(found.choices)), found.cost, 1e-12 * (1 + found.cost));
  }
  EXPECT_LT(roots, nodes * 3 / 4);
}

TEST(Cones, of_a_gpt_are_its_sums_and_products) {
  // A layer has two sums, to which residual connections lead, and four products, which also take
  // from a weight; norms, the core and the weights lie in cones, and the first value is a root.
  EXPECT_EQ(Cones(MadeGpt(24).problem).roots().size(), 24U * 6 + 3);
}

}  // namespace
}  // namespace fourfold::solve
