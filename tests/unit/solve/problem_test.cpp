#include "solve/problem.h"

#include <gtest/gtest.h>

#include <limits>

namespace fourfold::solve {
namespace {

Problem two_nodes() {
  return {{{"a", {1, 2}}, {"", {3, forbidden, 5}}}, {{0, 1, {0, 1, 2, 3, 4, forbidden}}}};
}

TEST(Problem, costs_nodes_and_pairs_by_row_of_the_source) {
  const Problem problem = two_nodes();
  EXPECT_EQ(cost_of(problem, std::vector<std::size_t>{0, 0}), 4);
  EXPECT_EQ(cost_of(problem, std::vector<std::size_t>{1, 0}), 8);
  EXPECT_EQ(cost_of(problem, std::vector<std::size_t>{0, 2}), 8);
  EXPECT_EQ(cost_of(problem, std::vector<std::size_t>{1, 2}), forbidden);
  EXPECT_EQ(num_assignments(problem), 6);
}

TEST(Problem, order_follows_the_edges_and_takes_the_lowest_number_first) {
  const std::vector<double> one{0};
  const Problem problem{{{"", {0}}, {"", {0}}, {"", {0}}, {"", {0}}},
                        {{3, 0, one}, {2, 0, one}, {0, 1, one}}};
  EXPECT_EQ(order_of(problem), (std::vector<std::size_t>{2, 3, 0, 1}));
}

TEST(Problem, edges_between_two_nodes_are_added_up) {
  Problem problem = two_nodes();
  problem.edges.push_back(problem.edges.front());
  const std::vector<Edge> joined = joined_edges(problem);
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_EQ(joined.front().comm, (std::vector<double>{0, 2, 4, 6, 8, forbidden}));
}

/// What is said of a problem after a change.
template <class Change>
std::string fault_after(Change change) {
  Problem problem = two_nodes();
  change(problem);
  return fault_of(problem);
}

TEST(Problem, each_fault_has_its_place) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fault_after([](Problem&) {}), "");
  EXPECT_EQ(fault_after([](Problem& problem) { problem = {}; }),
            "nodes: a problem has at least one node; got none");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.nodes[1].comp.clear(); }),
            "nodes[1].comp: a node has at least one choice; got none");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.nodes[0].comp[1] = nan; }),
            "nodes[0].comp[1]: a cost is a number from 0 to 1e+100, or forbidden; got nan");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.edges[0].comm[4] = -1; }),
            "edges[0].comm[1][1]: a cost is a number from 0 to 1e+100, or forbidden; got -1");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.nodes[1].comp.assign(3, forbidden); }),
            "nodes[1].comp: all choices of node 1 are forbidden; allow one");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.edges[0].comm.assign(6, forbidden); }),
            "edges[0].comm: all pairs of 'a' and node 1 are forbidden; allow one");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.edges[0].dst = 2; }),
            "edges[0].dst: there is no node 2; nodes are 0 to 1");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.edges[0].dst = 0; }),
            "edges[0]: leads from 'a' to itself; add its costs to the node's comp");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.edges[0].comm.pop_back(); }),
            "edges[0].comm: expected 2 x 3 costs, a row for each choice of 'a'; got 5");
  EXPECT_EQ(fault_after([](Problem& problem) { problem.nodes[1].name = "a"; }),
            "nodes[1].name: 'a' is the name of node 0 already; names differ");
  EXPECT_EQ(
      fault_after([](Problem& problem) { problem.nodes[0].comp.assign(most_choices + 1, 0); }),
      "nodes[0].comp: a node has at most 65535 choices; got 65536");
}

TEST(Problem, a_circle_is_named_from_its_lowest_node) {
  const std::vector<double> one{0};
  Problem problem{{{"a", {0}}, {"b", {0}}, {"c", {0}}, {"d", {0}}, {"e", {0}}},
                  {{0, 3, one}, {3, 2, one}, {2, 1, one}, {1, 3, one}, {2, 4, one}}};
  EXPECT_EQ(fault_of(problem), "edges: lead in a circle: 'b' -> 'd' -> 'c' -> 'b'; turn one round");
}

}  // namespace
}  // namespace fourfold::solve
