#include "solve/critical_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/solve/made_problems.h"

namespace fourfold::solve {
namespace {

/// Nodes of one choice that costs nothing.
Problem graph(std::size_t nodes, const std::vector<std::size_t>& heavy,
              const std::vector<std::pair<std::size_t, std::size_t>>& ends) {
  Problem problem;
  problem.nodes.resize(nodes, {"", {0}});
  for (const std::size_t node : heavy) problem.nodes[node].is_heavy = true;
  for (const auto& [src, dst] : ends) problem.edges.push_back({src, dst, {0}});
  return problem;
}

TEST(CriticalNodes, are_heavy_and_alone_on_the_longest_path) {
  // The path 0 1 2 3 4 5, which 6 shortens from 0 to 3, and beside 4 another node, 7, as late.
  const Problem problem =
      graph(8, {1, 3, 4, 5, 6, 7},
            {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {0, 6}, {6, 3}, {3, 7}, {7, 5}});
  const CriticalNodes critical = find_critical_nodes(problem);
  EXPECT_EQ(critical.nodes, (std::vector<std::size_t>{1, 3, 5}));
  EXPECT_EQ(critical.num_segments, 2U);
  EXPECT_EQ(critical.segments, (std::vector<std::size_t>{0, 0, 0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(std::ranges::count(critical.jumps, true), 0);
}

TEST(CriticalNodes, an_edge_past_one_jumps) {
  const Problem problem =
      graph(5, {0, 1, 2, 3, 4}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 2}, {1, 4}});
  const CriticalNodes critical = find_critical_nodes(problem);
  EXPECT_EQ(critical.num_segments, 4U);
  EXPECT_EQ(critical.jumps, (std::vector<bool>{false, false, false, false, true, true}));
}

TEST(CriticalNodes, a_node_without_inputs_belongs_where_it_is_read) {
  // 4 is read by 3 alone.
  const Problem problem = graph(5, {0, 1, 2, 3}, {{0, 1}, {1, 2}, {2, 3}, {4, 3}});
  EXPECT_EQ(find_critical_nodes(problem).segments[4], 2U);
}

TEST(CriticalNodes, of_few_have_one_segment) {
  for (const std::vector<std::size_t>& heavy : {std::vector<std::size_t>{1}, {3}}) {
    const CriticalNodes critical =
        find_critical_nodes(graph(4, heavy, {{0, 1}, {1, 2}, {0, 3}, {3, 2}}));
    EXPECT_LE(critical.nodes.size(), 1U);
    EXPECT_EQ(critical.num_segments, 1U);
    EXPECT_EQ(critical.segments, (std::vector<std::size_t>(4, 0)));
  }
}

TEST(CriticalNodes, without_a_word_those_are_heavy_that_cost_most) {
  Problem problem = graph(4, {}, {{0, 1}, {1, 2}, {2, 3}});
  problem.nodes[1].comp = {9};
  problem.nodes[3].comp = {8};
  EXPECT_EQ(find_critical_nodes(problem).nodes, (std::vector<std::size_t>{1, 3}));
}

TEST(CriticalNodes, of_a_gpt_are_its_products) {
  const CriticalNodes critical = find_critical_nodes(MadeGpt(24).problem);
  EXPECT_EQ(critical.nodes.size(), 24U * 4 + 1);
  EXPECT_EQ(critical.num_segments, 24U * 4);
  // Each residual connection passes two products.
  EXPECT_EQ(std::ranges::count(critical.jumps, true), 24 * 2);
}

}  // namespace
}  // namespace fourfold::solve
