#include "compile/choose_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "compile/passes.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

/// The moves of a step of training once their order in memory is chosen.
ShardedGraph chosen(const plan::Grid& grid) {
  GridSetup setup;
  setup.set_grid(grid);
  ShardedGraph result;
  PassOptions options;
  options.observer = [&](const Pass& pass, const Form& form, const PassContext&) {
    if (pass.name == "choose_blocks" && kind_of(form) == op::ProgramKind::train)
      result = std::get<ShardedGraph>(form);
  };
  const graph::ModelGraphs model = setup.graphs();
  compile(model, setup.solved(model), GridSetup::target(), options);
  return result;
}

std::vector<Move> moves_of(const ShardedGraph& graph) {
  std::vector<Move> moves;
  for (const Step& step : graph.steps)
    if (const auto* move = std::get_if<Move>(&step)) moves.push_back(*move);
  return moves;
}

TEST(ChooseBlocks, a_blocked_value_is_between_a_pack_a_collective_and_an_unpack) {
  const ShardedGraph graph = chosen({.x = 2, .y = 2, .z = 2, .data = 1});
  std::set<std::size_t> made, read;
  for (const Move& move : moves_of(graph)) {
    const bool packs = move.conversion.kind == OwnMove::pack,
               unpacks = move.conversion.kind == OwnMove::unpack;
    const bool from = graph.value(move.from).blocked.has_value(),
               to = graph.value(move.to).blocked.has_value();
    EXPECT_TRUE(from != to || !(packs || unpacks)) << graph.value(move.to).name;
    EXPECT_TRUE(to || !packs) << graph.value(move.to).name;
    if (to) made.insert(move.to.index());
    if (from) read.insert(move.from.index());
  }
  EXPECT_FALSE(made.empty());
  EXPECT_EQ(made, read);
}

TEST(ChooseBlocks, only_what_does_not_lie_share_after_share_is_packed) {
  const plan::Grid grid{.x = 1, .y = 1, .z = 2, .data = 2};
  GridSetup setup;
  setup.set_grid(grid);
  const Mesh mesh = setup.solved(setup.graphs()).meshes[0];
  const ShardedGraph graph = chosen(grid);
  std::size_t moved_as_they_lie = 0;
  for (const Move& move : moves_of(graph)) {
    const ShardedValue &from = graph.value(move.from), &to = graph.value(move.to);
    if (from.blocked.has_value() == to.blocked.has_value()) {
      moved_as_they_lie += from.blocked ? 0 : 1;
      continue;
    }
    const ShardedValue& plain = from.blocked ? to : from;
    const program::Blocked& order = from.blocked ? *from.blocked : *to.blocked;
    const Shape local = op::local_shape(plain.shape, plain.sharding, mesh);
    const std::int64_t ranks = mesh.axes[order.axis.index()].size;
    EXPECT_FALSE(local.elements(0, order.dim) == 1 && local[order.dim] == order.share * ranks)
        << plain.name;
  }
  EXPECT_GT(moved_as_they_lie, 0U);
}

TEST(ChooseBlocks, what_an_all_to_all_brings_is_unpacked_along_the_dim_that_becomes_whole) {
  GridSetup setup;
  setup.set_grid({.x = 2, .y = 1, .z = 1, .data = 1});
  const plan::Plan plan = setup.solved();
  const auto axis = static_cast<std::size_t>(
      std::ranges::find(plan.meshes[0].axes, 2, &Axis::size) - plan.meshes[0].axes.begin());
  ShardedGraph graph;
  const auto value = [&](const char* name, std::size_t dim) {
    ShardedValue& made = graph.values.emplace_back();
    made.name = name;
    made.shape = {6, 4};
    made.sharding.dims.resize(2);
    made.sharding.dims[dim] = {{AxisId(axis), std::nullopt}};
    return graph::ValueId(graph.values.size() - 1);
  };
  const graph::ValueId rows = value("rows", 0), columns = value("columns", 1);
  Conversion conversion;
  conversion.kind = Collective::all_to_all;
  conversion.axes = {AxisId(axis)};
  conversion.dim = 1;
  conversion.from_dim = 0;
  conversion.after = graph.value(columns).sharding;
  graph.steps.emplace_back(Move{conversion, rows, columns, std::nullopt});
  // [3, 4] becomes [6, 2]: rows lie share after share, columns do not.
  std::vector<MoveKind> kinds;
  for (const Move& move : moves_of(choose_blocks(graph, plan)))
    kinds.push_back(move.conversion.kind);
  EXPECT_EQ(kinds, (std::vector<MoveKind>{OwnMove::pack, Collective::all_to_all}));

  conversion.dim = 0;
  conversion.from_dim = 1;
  conversion.after = graph.value(rows).sharding;
  graph.steps = {Move{conversion, columns, rows, std::nullopt}};
  const ShardedGraph back = choose_blocks(graph, plan);
  const std::vector<Move> moves = moves_of(back);
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_EQ(moves[1].conversion.kind, OwnMove::unpack);
  EXPECT_EQ(back.value(moves[1].from).blocked, (program::Blocked{1, AxisId(axis), 2}));
}

}  // namespace
}  // namespace fourfold::compile
