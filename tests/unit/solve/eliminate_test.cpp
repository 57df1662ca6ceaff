#include "solve/eliminate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

/// Nodes of some choices in a grid, each with an edge to the right and one down.
Problem grid(std::size_t rows, std::size_t columns, std::size_t choices) {
  Draw draw(7);
  Problem problem;
  for (std::size_t node = 0; node < rows * columns; ++node) {
    problem.nodes.push_back({"", drawn_costs(choices, 1e-3, 0, draw), false});
    for (const std::size_t src :
         {node % columns > 0 ? node - 1 : node, node >= columns ? node - columns : node})
      if (src != node)
        problem.edges.push_back({src, node, drawn_costs(choices * choices, 1e-3, 0, draw)});
  }
  return problem;
}

TEST(EliminationOrder, has_the_width_of_the_graph) {
  EXPECT_EQ(choose_order(long_chain(50, 2, 1)).width, 1U);
  EXPECT_EQ(choose_order(random_problem(3, Shape::tree, 0)).width, 1U);
  EXPECT_EQ(choose_order(grid(2, 20, 2)).width, 2U);
  EXPECT_EQ(choose_order(grid(4, 20, 2)).width, 4U);
  EXPECT_EQ(choose_order({{{"", {0}}, {"", {0}}}, {}}).width, 0U);
}

TEST(EliminationOrder, counts_the_bytes_of_tables_and_of_remembered_choices) {
  // In a chain two tables of three numbers are there at once, and of three nodes the choices.
  const EliminationOrder order = choose_order(long_chain(4, 3, 1));
  EXPECT_EQ(order.bytes, 2 * 3 * 8 + 3 * 3 * 2);
  EXPECT_EQ(order.entries, 3 * 9 + 3);
}

TEST(EliminationOrder, a_node_of_many_neighbours_is_no_trouble) {
  Problem star{{{"", {0, 0}}}, {}};
  for (std::size_t node = 1; node < 3000; ++node) {
    star.nodes.push_back({"", {0, 0}});
    star.edges.push_back({0, node, {0, 0, 0, 0}});
  }
  EXPECT_EQ(choose_order(star).width, 1U);
}

TEST(Eliminate, what_is_kept_has_a_cost_for_each_of_its_choices) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const Problem problem = random_problem(seed, static_cast<Shape>(seed % 5), 0, 6);
    const std::vector<std::size_t> kept{problem.nodes.size() - 1, 0};
    const EliminationOrder order = choose_order(problem, kept);
    const Elimination elimination(problem, order, kept);
    const std::size_t columns = problem.choices(0);
    ASSERT_EQ(elimination.costs().size(), problem.choices(kept[0]) * columns);
    for (std::size_t at = 0; at < elimination.costs().size(); ++at) {
      // The same with the kept nodes left that choice alone.
      Problem only = problem;
      const std::size_t of_kept[] = {at / columns, at % columns};
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t choice = 0; choice < only.choices(kept[i]); ++choice)
          if (choice != of_kept[i]) only.nodes[kept[i]].comp[choice] = forbidden;
      const double cost = std::get<Solution>(eliminate(only, {})).cost;
      EXPECT_NEAR(elimination.costs()[at], cost, 1e-12 * (1 + cost));
      std::vector<std::size_t> choices(problem.nodes.size());
      choices[kept[0]] = of_kept[0];
      choices[kept[1]] = of_kept[1];
      elimination.complete(choices);
      EXPECT_NEAR(cost_of(problem, choices), cost, 1e-12 * (1 + cost));
    }
  }
}

TEST(Eliminate, a_chain_of_thousands_costs_what_dynamic_programming_along_it_finds) {
  const Problem chain = long_chain(4000, 20, 5);
  std::vector<double> costs = chain.nodes.front().comp;
  for (const Edge& edge : chain.edges) {
    std::vector<double> next(20, forbidden);
    for (std::size_t i = 0; i < 20; ++i)
      for (std::size_t j = 0; j < 20; ++j)
        next[j] = std::min(next[j], costs[i] + edge.comm[i * 20 + j]);
    for (std::size_t j = 0; j < 20; ++j) next[j] += chain.nodes[edge.dst].comp[j];
    costs = next;
  }
  const double least = *std::ranges::min_element(costs);
  const Solution solution = std::get<Solution>(eliminate(chain, {}));
  EXPECT_NEAR(solution.cost, least, 1e-12 * least);
  EXPECT_EQ(solution.statistics.width, 1U);
}

TEST(Eliminate, refuses_tables_above_the_limit_and_names_the_width) {
  // Neighbours want to differ, and all choices are alike: no bound excludes any.
  Problem problem = grid(6, 6, 4);
  for (Node& node : problem.nodes) node.comp.assign(4, 0);
  for (Edge& edge : problem.edges) edge.comm = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  const Outcome outcome = eliminate(problem, {.bytes = 20'000});
  const Refused& refused = std::get<Refused>(outcome);
  EXPECT_EQ(refused.code, ExitCode::does_not_fit);
  EXPECT_NE(refused.reason.find("19.5 KiB are allowed: the best order has width 6, a table over 6 "
                                "nodes of up to 4 choices; use o2"),
            std::string::npos)
      << refused.reason;
  EXPECT_EQ(std::get<Solution>(eliminate(problem, {})).cost, 0);
}

}  // namespace
}  // namespace fourfold::solve
