// Ranks on a mesh, and what there is to say about grids that do not fit.
#include "plan/make_mesh.h"

#include <gtest/gtest.h>

#include "config/infeasible_text.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace fourfold::plan {
namespace {

using Groups = std::set<std::vector<std::size_t>>;

/// The ranks that differ on one axis only, in its order.
Groups groups(const Mesh& mesh, AxisId axis) {
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> by_others;
  for (std::size_t i = 0; i < mesh.ranks.size(); ++i) {
    auto coordinates = mesh.coordinates(i);
    coordinates[axis.index()] = 0;
    by_others[coordinates].push_back(mesh.ranks[i].index());
  }
  Groups result;
  for (const auto& [others, members] : by_others) result.insert(members);
  return result;
}

TEST(MakeMesh, x_is_innermost_then_y_z_and_data) {
  // The groups that AxoNN names in section V-B, of 2 x 2 x 2 x 2 = 16 ranks.
  const Mesh mesh = make_mesh({.x = 2, .y = 2, .z = 2, .data = 2});
  const Axes axes = axes_of(mesh);
  EXPECT_EQ(groups(mesh, axes.x),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups(mesh, axes.y),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups(mesh, axes.z),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(groups(mesh, axes.data),
            (Groups{{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}));
}

TEST(MakeMesh, in_the_order_of_atp_groups_of_y_are_consecutive_ranks) {
  const Mesh mesh =
      make_mesh({.x = 2, .y = 3, .z = 1, .data = 1, .order = {"y", "x", "z", "data"}});
  EXPECT_EQ(groups(mesh, axes_of(mesh).y), (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(groups(mesh, axes_of(mesh).x), (Groups{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(MakeMesh, every_order_numbers_the_ranks_with_its_first_axis_fastest) {
  std::vector<std::string> order = {"data", "x", "y", "z"};
  const std::map<std::string, std::int64_t> sizes = {{"x", 2}, {"y", 3}, {"z", 4}, {"data", 5}};
  int orders = 0;
  do {
    const Mesh mesh = make_mesh({.x = 2, .y = 3, .z = 4, .data = 5, .order = order});
    ASSERT_EQ(mesh.ranks.size(), 120U);
    const Axes axes = axes_of(mesh);
    const std::map<std::string, AxisId> ids = {
        {"x", axes.x}, {"y", axes.y}, {"z", axes.z}, {"data", axes.data}};
    for (std::size_t i = 0; i < mesh.ranks.size(); ++i) {
      std::int64_t rank = 0, scale = 1;
      for (const std::string& axis : order) {
        rank += scale * mesh.coordinates(i)[ids.at(axis).index()];
        scale *= sizes.at(axis);
      }
      EXPECT_EQ(mesh.ranks[i].index(), static_cast<std::size_t>(rank));
    }
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 24);
}

TEST(MakeMesh, an_order_without_all_four_axes_is_a_bug_of_the_caller) {
  EXPECT_THROW(make_mesh({.data = 1, .order = {"x", "y", "z"}}), InternalError);
}

// --- solve_grid

PlanSpec spec_of(const Grid& grid, Strategy strategy = Strategy::axonn) {
  PlanSpec spec;
  spec.grid = grid;
  spec.strategy = strategy;
  return spec;
}

config::InfeasibleText problem_of(const std::variant<Grid, Infeasible>& solved) {
  return config::in_words(std::get<Infeasible>(solved).problems.at(0));
}

TEST(SolveGrid, data_takes_all_ranks_that_the_tensor_axes_leave) {
  const PlanSpec spec = spec_of({.x = 2, .y = 3, .z = 1});
  for (const std::int64_t data : {1, 2, 7})
    EXPECT_EQ(std::get<Grid>(solve_grid(spec, 6 * data, DataRanks::open)).data, data);
  EXPECT_EQ(std::get<Grid>(solve_grid(spec, std::nullopt, DataRanks::open)).data, 1)
      << "as few as are needed";
}

TEST(SolveGrid, a_grid_that_fits_the_job_stays_as_it_is) {
  const PlanSpec spec = spec_of({.x = 2, .y = 2, .z = 2, .data = 3});
  EXPECT_EQ(std::get<Grid>(solve_grid(spec, 24)), spec.grid);
  EXPECT_EQ(std::get<Grid>(solve_grid(spec, std::nullopt)), spec.grid);
}

TEST(SolveGrid, ranks_that_the_tensor_axes_do_not_divide_are_refused_with_a_number_that_works) {
  const auto solved = solve_grid(spec_of({.x = 2, .y = 2, .z = 1}), 10, DataRanks::open);
  EXPECT_EQ(problem_of(solved).keys, (std::vector<std::string>{"parallel.tensor"}));
  EXPECT_EQ(
      problem_of(solved).message,
      "parallel.tensor x 2 y 2 z 1 uses 4 ranks at a time, which does not divide the 10 ranks "
      "of the job; start a multiple of 4");
}

TEST(SolveGrid, another_number_of_ranks_than_the_grid_has_is_refused_with_both_remedies) {
  const auto solved = solve_grid(spec_of({.x = 2, .y = 2, .z = 1, .data = 2}), 12);
  EXPECT_EQ(problem_of(solved).keys,
            (std::vector<std::string>{"parallel.tensor", "parallel.data"}));
  EXPECT_EQ(problem_of(solved).message,
            "the grid x 2 y 2 z 1 data 2 has 8 ranks, the job 12; start 8 ranks, or set "
            "parallel.data = 3");
  EXPECT_TRUE(
      std::holds_alternative<Grid>(solve_grid(spec_of({.x = 2, .y = 2, .z = 1, .data = 3}), 12)));
  const auto odd = solve_grid(spec_of({.x = 2, .y = 2, .z = 1, .data = 2}), 6);
  EXPECT_NE(problem_of(odd).message.find("auto and another parallel.tensor"), std::string::npos)
      << "no number of data-parallel ranks would do";
}

TEST(SolveGrid, a_strategy_names_the_axes_that_it_does_not_use) {
  const auto fsdp = solve_grid(spec_of({.x = 2, .y = 4, .z = 2, .data = 1}, Strategy::fsdp), 16);
  ASSERT_EQ(std::get<Infeasible>(fsdp).problems.size(), 2U);
  EXPECT_EQ(problem_of(fsdp).keys,
            (std::vector<std::string>{"parallel.strategy", "parallel.tensor.x"}));
  EXPECT_EQ(problem_of(fsdp).message,
            "parallel.strategy = fsdp has parallel.tensor.x = 1, not 2; set that, or "
            "parallel.strategy = axonn");
  const auto megatron =
      solve_grid(spec_of({.x = 2, .y = 1, .z = 2, .data = 1}, Strategy::megatron), 4);
  EXPECT_EQ(problem_of(megatron).keys,
            (std::vector<std::string>{"parallel.strategy", "parallel.tensor.z"}));
  EXPECT_TRUE(std::holds_alternative<Grid>(
      solve_grid(spec_of({.x = 4, .y = 1, .z = 1, .data = 1}, Strategy::megatron), 4)));
  EXPECT_TRUE(std::holds_alternative<Grid>(
      solve_grid(spec_of({.x = 1, .y = 1, .z = 4, .data = 1}, Strategy::fsdp), 4)));
}

}  // namespace
}  // namespace fourfold::plan
