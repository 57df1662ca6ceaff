// Linears found by factor rules, on GPTs and networks of convolutions: by AxoNN's equations they
// send what compiled programs send.
#include "search/linears.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "program/traffic.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::search {
namespace {

using compile::GridSetup;

GridSetup gpt_of_36_heads(const plan::Grid& grid) {
  GridSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 36,
               .hidden_size = 144,
               .ffn_hidden_size = 576,
               .max_position_embeddings = 12,
               .vocab_size = 144,
               .tied_head = false};
  setup.plan.seq_length = 12;
  setup.plan.micro_batch_size = 2;
  setup.set_grid(grid, 3);
  return setup;
}

/// Bytes that a compiled step sends along each axis for tensors of those labels.
std::map<std::string, double> sent_for(const program::Program& program,
                                       const std::set<std::string>& labels) {
  std::map<std::string, double> sent;
  for (const program::Traffic& entry : program::traffic(program))
    if (labels.contains(entry.label)) sent[entry.axis] += entry.sent_bytes;
  return sent;
}

std::map<std::string, double> by_name(const std::vector<double>& elements, const Mesh& mesh) {
  std::map<std::string, double> bytes;
  for (std::size_t axis = 0; axis < elements.size(); ++axis)
    if (elements[axis] > 0)
      bytes[mesh.axes[axis].name] = elements[axis] * static_cast<double>(sizeof(float));
  return bytes;
}

void expect_equal(const std::map<std::string, double>& got,
                  const std::map<std::string, double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [axis, bytes] : expected) EXPECT_NEAR(got.at(axis), bytes, 1e-9 * bytes) << axis;
}

const std::vector<plan::Grid> grids = {
    {.x = 2, .y = 2, .z = 2, .data = 2}, {.x = 3, .y = 1, .z = 2, .data = 2},
    {.x = 1, .y = 4, .z = 3, .data = 1}, {.x = 4, .y = 3, .z = 1, .data = 3},
    {.x = 1, .y = 1, .z = 4, .data = 2}, {.x = 2, .y = 3, .z = 4, .data = 1},
    {.x = 1, .y = 1, .z = 1, .data = 1}};

TEST(Linears, of_a_gpt_are_its_four_products_in_each_layer_and_the_head) {
  const GridSetup setup = gpt_of_36_heads(grids[0]);
  const graph::ModelGraphs model = setup.graphs();
  const auto linears = linears_of(model.at(op::ProgramKind::train), setup.solved(model));
  ASSERT_EQ(linears.size(), 9U);
  const double tokens = 2 * 4 * 12 / 2;  // of one data-parallel replica: two micro-batches on z
  const auto expected = gpt_linears(tokens, 144);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(linears[i].sizes.m, 2 * tokens) << linears[i].weight;
    EXPECT_EQ(linears[i].sizes.k, expected[i].k) << linears[i].weight;
    EXPECT_EQ(linears[i].sizes.n, expected[i].n) << linears[i].weight;
  }
  EXPECT_EQ(linears[0].weight, "blocks.0.attn.qkv.weight");
}

TEST(Linears, of_a_gpt_send_what_equations_4_to_8_say) {
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(compile::text_of(grid));
    const GridSetup setup = gpt_of_36_heads(grid);
    const graph::ModelGraphs model = setup.graphs();
    const plan::Plan plan = setup.solved(model);
    auto linears = linears_of(model.at(op::ProgramKind::train), plan);
    linears.pop_back();  // the head
    const auto got = by_name(axonn_elements(linears, plan.meshes[0], 3), plan.meshes[0]);
    const auto number = [](std::int64_t n) { return static_cast<double>(n); };
    const AxisNumbers sizes{number(grid.x), number(grid.y), number(grid.z), number(grid.data)};
    const double m = 2. * 12 * number(grid.z);  // of a micro-batch
    AxisNumbers micro = axonn_by_axis(sizes, gpt_linears(m, 144));
    std::map<std::string, double> expected;
    const auto expect = [&](const char* axis, double elements) {
      if (elements > 0) expected[axis] = 2 * 4 * elements;  // layers, bytes
    };
    expect("x", 3 * micro.x);
    expect("y", 3 * micro.y);
    expect("z", 3 * micro.z);
    expect("data", micro.data);
    expect_equal(got, expected);
  }
}

TEST(Linears, of_a_gpt_send_what_its_compiled_program_sends) {
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(compile::text_of(grid));
    const GridSetup setup = gpt_of_36_heads(grid);
    const graph::ModelGraphs model = setup.graphs();
    const plan::Plan plan = setup.solved(model);
    const auto linears = linears_of(model.at(op::ProgramKind::train), plan);
    // The core's exchanges are halves of what all-reduces of its neighbours would send.
    expect_equal(by_name(axonn_elements(linears, plan.meshes[0], 3), plan.meshes[0]),
                 sent_for(setup.train(), {"linear", "attention", "head"}));
  }
}

TEST(Linears, of_a_network_of_convolutions_send_what_its_compiled_program_sends) {
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(compile::text_of(grid));
    GridSetup setup;
    setup.vgg = model::VggSpec{.widths = {144, 0, 144, 288, 0},
                               .hidden = {432, 144},
                               .picture = {8, 8, 3},
                               .num_classes = 144,
                               .dropout = 0};
    setup.plan.seq_length = 1;
    setup.plan.micro_batch_size = 2;
    setup.set_grid(grid, 3);
    const graph::ModelGraphs model = setup.graphs();
    const plan::Plan plan = setup.solved(model);
    const auto linears = linears_of(model.at(op::ProgramKind::train), plan);
    EXPECT_EQ(linears.size(), 6U);
    expect_equal(by_name(axonn_elements(linears, plan.meshes[0], 3), plan.meshes[0]),
                 sent_for(setup.train(), {"conv", "pool", "linear", "head"}));
  }
}

// Cheng et al. 2023, table 1: of a data-parallel linear the input is S(0), the weight R and the
// output S(0); of a column linear R, S(1) and S(1); of a row linear S(1), S(0) and a partial sum.
TEST(Linears, atps_table_1_is_how_data_parallel_column_and_row_linears_lie) {
  const auto linears_on = [](const plan::Grid& grid) {
    const GridSetup setup = gpt_of_36_heads(grid);
    const graph::ModelGraphs model = setup.graphs();
    std::map<std::string, LinearOnMesh> by_weight;
    for (LinearOnMesh& linear : linears_of(model.at(op::ProgramKind::train), setup.solved(model)))
      by_weight[linear.weight] = std::move(linear);
    return by_weight;
  };
  const LinearOnMesh data = linears_on({.data = 2}).at("blocks.0.mlp.up.weight");
  EXPECT_EQ(data.replicas.size(), 1U) << "S(0)";
  EXPECT_TRUE(data.kept.empty() && data.contracted.empty() && data.at_rest.empty()) << "R";
  const auto on_x = linears_on({.x = 2});
  const LinearOnMesh &column = on_x.at("blocks.0.mlp.up.weight"),
                     &row = on_x.at("blocks.0.mlp.down.weight");
  EXPECT_TRUE(column.contracted.empty()) << "the input is whole";
  ASSERT_EQ(column.kept.size(), 1U) << "columns of the weight and of the output are cut";
  EXPECT_TRUE(row.kept.empty());
  ASSERT_EQ(row.contracted.size(), 1U) << "rows of the weight are cut, and the output is partial";
  EXPECT_EQ(row.contracted, column.kept) << "one follows the other without a word sent";
}

}  // namespace
}  // namespace fourfold::search
