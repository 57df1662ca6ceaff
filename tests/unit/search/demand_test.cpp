// What a plan asks of a rank, against the programs that it is compiled to.
#include "search/demand.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "machine/known_clusters.h"
#include "program/traffic.h"
#include "search/searched_plans.h"
#include "unit/compile/grid_setup.h"

namespace fourfold::search {
namespace {

using compile::GridSetup;

GridSetup gpt_setup(const plan::Grid& grid, std::int64_t layers = 2) {
  GridSetup setup;
  setup.gpt = {.num_layers = layers,
               .num_attention_heads = 36,
               .hidden_size = 144,
               .ffn_hidden_size = 576,
               .max_position_embeddings = 12,
               .vocab_size = 101};
  setup.plan.seq_length = 12;
  setup.plan.micro_batch_size = 2;
  setup.set_grid(grid, 3);
  return setup;
}

/// Degrees up to 3 divide all that they cut, samples too, but not the groups. Documents are masked
/// where there are three.
GridSetup llama_setup(const plan::Grid& grid, std::int64_t groups) {
  GridSetup setup;
  setup.llama = {.num_layers = 3,
                 .num_attention_heads = 2 * groups,
                 .num_key_value_heads = groups,
                 .head_dim = 12,
                 .hidden_size = 144,
                 .ffn_hidden_size = 288,
                 .max_position_embeddings = 12,
                 .vocab_size = 101,
                 .attention_bias = model::AttentionBias::qkv,
                 .head_norm = groups != 2,
                 .tied_head = groups != 1};
  setup.masks_documents = setup.restarts_positions = groups == 3;
  setup.plan.seq_length = 12;
  setup.plan.micro_batch_size = 9;
  setup.set_grid(grid, 3);
  return setup;
}
const std::vector<std::int64_t> numbers_of_groups = {1, 2, 3, 9};

Demand demand_in(const GridSetup& setup) {
  const graph::ModelGraphs model = setup.graphs();
  return demand_of(model.at(op::ProgramKind::train), setup.solved(model));
}

std::string axes_text(const std::vector<AxisId>& axes, const Mesh& mesh) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : "-") + mesh.axes[axis.index()].name;
  return text;
}

using ByAxisAndLabel = std::map<std::pair<std::string, std::string>, double>;

void expect_traffic_of_program(const GridSetup& setup) {
  SCOPED_TRACE(compile::text_of(setup.plan.grid));
  ByAxisAndLabel got, expected;
  const Mesh mesh = plan::make_mesh(setup.plan.grid);
  for (const auto& [key, sent] : demand_in(setup).sent)
    got[{axes_text(key.axes, mesh), key.label}] += sent.sent_bytes;
  for (const program::Traffic& entry : program::traffic(setup.train()))
    expected[{entry.axis, entry.label}] += entry.sent_bytes;
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [key, bytes] : expected) {
    ASSERT_TRUE(got.contains(key)) << key.first << " " << key.second;
    EXPECT_NEAR(got[key], bytes, 1e-9 * bytes) << key.first << " " << key.second;
  }
}

TEST(Demand, sends_what_the_compiled_program_sends_on_every_grid) {
  std::size_t grids = 0;
  for (const plan::Grid& grid : compile::grids_of({1, 2, 3}, 12)) {
    expect_traffic_of_program(gpt_setup(grid));
    ++grids;
  }
  EXPECT_GE(grids, 25U);
}

TEST(Demand, sends_what_the_program_sends_with_recomputation_cut_states_bf16_and_chunks) {
  for (const plan::Grid& grid : compile::grids_of({1, 2}, 4)) {
    GridSetup setup = gpt_setup(grid);
    setup.plan.checkpointing.layers = 1;
    expect_traffic_of_program(setup);
    setup.plan.checkpointing.keeps_products = true;
    setup.plan.shard_states = true;
    expect_traffic_of_program(setup);
    setup.plan.compute = DType::bf16;
    setup.plan.rounds_gradients = true;
    setup.plan.cached_gathers = 1;
    expect_traffic_of_program(setup);
    setup.plan.chunks = 2;
    expect_traffic_of_program(setup);
  }
}

TEST(Demand, of_pictures_sends_what_the_program_sends) {
  for (const plan::Grid& grid : {plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2},
                                 {.x = 1, .y = 4, .z = 1, .data = 1},
                                 {.x = 2, .y = 1, .z = 1, .data = 2}}) {
    GridSetup setup;
    setup.unet = model::UnetSpec{.picture = {8, 8, 3},
                                 .channels = 32,
                                 .channel_mult = {1, 2},
                                 .layers_per_level = 1,
                                 .attention_resolutions = {4},
                                 .num_heads = 16,
                                 .norm_groups = 16,
                                 .num_classes = 10,
                                 .diffusion = {.steps = 10, .learn_sigma = true, .sampling = {}}};
    setup.plan.seq_length = 1;
    setup.plan.micro_batch_size = 2;
    setup.set_grid(grid, 2);
    expect_traffic_of_program(setup);
  }
}

TEST(Demand, of_a_llama_sends_what_the_program_sends_whether_axes_divide_its_groups_or_not) {
  std::size_t grids = 0;
  for (const std::int64_t groups : numbers_of_groups)
    for (const plan::Grid& grid : compile::grids_of({1, 2, 3}, 9)) {
      GridSetup setup = llama_setup(grid, groups);
      if (groups == 2) setup.plan.checkpointing.layers = 1;
      expect_traffic_of_program(setup);
      ++grids;
    }
  EXPECT_GE(grids, 100U);
}

TEST(Demand, of_layouts_that_are_searched_for_sends_what_the_program_sends) {
  const machine::Cluster cluster = machine::load_cluster("perlmutter-40gb");
  std::size_t layouts = 0;
  for (const plan::Grid& grid : {plan::Grid{.x = 2, .data = 2},
                                 {.x = 2, .y = 2},
                                 {.x = 1, .y = 1, .z = 2, .data = 2},
                                 {.x = 2, .y = 1, .z = 2, .data = 3}}) {
    GridSetup setup = gpt_setup(grid);
    Pricer pricer(cluster, *machine::rate_of(cluster.device, DType::f32), setup.plan.bucket_bytes);
    const auto found = searched_plans(setup.graphs(), setup.plan, pricer,
                                      [](const plan::PlanSpec&) { return true; });
    for (const plan::PlanSpec& spec : std::get<SearchedPlans>(found).specs) {
      setup.plan = spec;
      expect_traffic_of_program(setup);
      ++layouts;
    }
  }
  EXPECT_GE(layouts, 4U);
}

double program_flops(const program::Program& program) {
  double flops = 0;
  for (const program::Instruction& i : program.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&i.what))
      if (op::is_counted_in_flops(op::work_class(compute->op)))
        flops += op::flops(compute->op, program.operand_shapes(*compute));
  return flops;
}

double product_flops(const Demand& demand) {
  double flops = 0;
  for (const auto& [one, count] : demand.products) flops += one * count;
  return flops;
}

void expect_products_of_program(GridSetup setup) {
  for (const std::int64_t layers : {0, 1}) {
    setup.plan.checkpointing.layers = layers;
    const double expected = program_flops(setup.train());
    EXPECT_NEAR(product_flops(demand_in(setup)), expected, 0.01 * expected)
        << compile::text_of(setup.plan.grid);
  }
}

TEST(Demand, works_in_products_as_the_compiled_program_does) {
  for (const plan::Grid& grid : compile::grids_of({1, 2, 3}, 6)) {
    expect_products_of_program(gpt_setup(grid));
    for (const std::int64_t groups : {2, 9}) expect_products_of_program(llama_setup(grid, groups));
  }
}

TEST(Demand, of_many_layers_follows_from_two_models_of_few) {
  for (const std::int64_t recomputed : {0, 1}) {
    const auto demand = [&](std::int64_t layers) {
      GridSetup setup = gpt_setup({.x = 2, .y = 2, .z = 2, .data = 2}, layers);
      setup.plan.checkpointing.layers = recomputed;
      return demand_in(setup);
    };
    const Demand got = extrapolated(demand(1), demand(2), 6), expected = demand(7);
    ASSERT_EQ(got.sent.size(), expected.sent.size());
    for (const auto& [key, sent] : expected.sent) {
      EXPECT_NEAR(got.sent.at(key).sent_bytes, sent.sent_bytes, 1e-9 * sent.sent_bytes);
      EXPECT_NEAR(got.sent.at(key).calls, sent.calls, 1e-9 * sent.calls);
    }
    EXPECT_NEAR(product_flops(got), product_flops(expected), 1e-9 * product_flops(expected));
    EXPECT_NEAR(got.memory.all(), expected.memory.all(), 0.02 * expected.memory.all());
  }
}

struct Ratios {
  double lowest = 10, highest = 0;

  /// The memory of a program by closed form over what it has.
  void add(GridSetup setup) {
    // What runs beside computation takes more, where it fits.
    setup.plan.overlap = {.all_reduce = true, .reduce_scatter = false, .all_gather = false};
    for (const std::int64_t layers : {0, 1}) {
      setup.plan.checkpointing.layers = layers;
      const program::Bundle bundle = setup.bundle();
      const auto expected = static_cast<double>(bundle.persistent_bytes + bundle.transient_bytes);
      const double ratio = demand_in(setup).memory.all() / expected;
      lowest = std::min(lowest, ratio);
      highest = std::max(highest, ratio);
    }
  }
  void print(const char* what) const {
    std::printf("memory of %s by closed form: %.3f to %.3f of the programs'\n", what, lowest,
                highest);
  }
};

TEST(Demand, needs_about_the_memory_of_the_compiled_program) {
  Ratios gpt, llama;
  for (const plan::Grid& grid : compile::grids_of({1, 2, 3}, 6)) {
    gpt.add(gpt_setup(grid, 3));
    for (const std::int64_t groups : {2, 9}) llama.add(llama_setup(grid, groups));
  }
  gpt.print("a GPT");
  llama.print("a Llama");
  EXPECT_GT(gpt.lowest, 0.985);
  EXPECT_LT(gpt.highest, 1.015);
  // It is farther off where y cuts layers.
  EXPECT_GT(llama.lowest, 0.95);
  EXPECT_LT(llama.highest, 1.05);
}

TEST(Demand, needs_about_the_memory_of_the_program_with_room_beside_computation_too) {
  double lowest = 10, highest = 0;
  for (const plan::Grid& grid : compile::grids_of({1, 2, 3}, 6))
    for (const std::int64_t layers : {0, 1}) {
      GridSetup setup = gpt_setup(grid, 3);
      setup.plan.checkpointing.layers = layers;
      const program::Bundle bundle = setup.bundle();
      const auto expected = static_cast<double>(bundle.persistent_bytes + bundle.transient_bytes);
      const Demand demand = demand_in(setup);
      const double ratio = (demand.memory.all() + demand.room_bytes) / expected;
      lowest = std::min(lowest, ratio);
      highest = std::max(highest, ratio);
    }
  std::printf("memory with room by closed form: %.2f to %.2f of the programs'\n", lowest, highest);
  EXPECT_GT(lowest, 0.95);
  EXPECT_LT(highest, 1.05);
}

}  // namespace
}  // namespace fourfold::search
