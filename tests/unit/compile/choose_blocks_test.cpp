#include "compile/choose_blocks.h"

#include <gtest/gtest.h>

#include <set>

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
    const bool packs = move.conversion.kind == MoveKind::pack,
               unpacks = move.conversion.kind == MoveKind::unpack;
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

}  // namespace
}  // namespace fourfold::compile
