#include "compile/use_cut_forms.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "unit/compile/grid_setup.h"

namespace fourfold::compile {
namespace {

template <class Row>
std::ptrdiff_t count(const graph::Graph& graph) {
  return std::ranges::count_if(graph.nodes,
                               [](const graph::Node& node) { return node.op.is<Row>(); });
}

TEST(UseCutForms, a_graph_stays_as_it_is_where_no_ranks_share_a_factor_that_an_op_wants_whole) {
  GridSetup setup;
  setup.set_grid({.x = 1, .y = 1, .z = 2, .data = 2});
  const graph::ModelGraphs model = setup.graphs();
  const graph::Graph& train = model.at(op::ProgramKind::train);
  EXPECT_TRUE(use_cut_forms(train, setup.solved(model)).graph == train);
}

TEST(UseCutForms, norms_merge_the_moments_of_a_chunk_for_each_rank_that_shares_their_channels) {
  GridSetup setup;
  setup.set_grid({.x = 1, .y = 2, .z = 1, .data = 1});
  const graph::ModelGraphs model = setup.graphs();
  const graph::Graph& train = model.at(op::ProgramKind::train);
  const CutGraph cut = use_cut_forms(train, setup.solved(model));
  ASSERT_GT(count<op::LayerNorm>(train), 0);
  EXPECT_EQ(count<op::LayerNorm>(cut.graph), 0);
  EXPECT_EQ(count<op::LayerNormMoments>(cut.graph), count<op::LayerNorm>(train));
  EXPECT_EQ(count<op::LayerNormApply>(cut.graph), count<op::LayerNorm>(train));
  EXPECT_EQ(cut.shardings.nodes.size(), cut.graph.nodes.size());
  EXPECT_EQ(cut.shardings.values.size(), cut.graph.values.size());
}

}  // namespace
}  // namespace fourfold::compile
