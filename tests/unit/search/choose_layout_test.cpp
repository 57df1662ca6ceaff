// Layouts that are searched: what the problem says they take is what the demand of their plan says,
// and no strategy's takes less.
#include "search/choose_layout.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "machine/known_clusters.h"
#include "support/job_setup.h"

namespace fourfold::search {
namespace {

/// A job and the machine that it is for.
struct Wanted {
  std::string name;
  test::JobSetup setup;
  std::string machine = "perlmutter-40gb";
};

Wanted gpt_on(const plan::Grid& grid, std::int64_t samples = 2) {
  Wanted wanted{"gpt", {}};
  wanted.setup.gpt = {.num_layers = 2,
                      .num_attention_heads = 16,
                      .hidden_size = 256,
                      .ffn_hidden_size = 1024,
                      .max_position_embeddings = 64,
                      .vocab_size = 512};
  wanted.setup.plan.seq_length = 64;
  wanted.setup.plan.grid = grid;
  wanted.setup.plan.micro_batch_size = samples;
  wanted.setup.plan.global_batch_size = 4 * samples * grid.z * grid.data;
  return wanted;
}

Wanted vgg_on(const plan::Grid& grid) {
  Wanted wanted = gpt_on(grid, 16);
  wanted.name = "vgg";
  wanted.setup.vgg = model::VggSpec{.widths = {64, 0, 128, 0},
                                    .hidden = {512},
                                    .picture = {32, 32, 3},
                                    .num_classes = 64,
                                    .mean = {0.4, 0.5, 0.6},
                                    .deviation = {0.2, 0.25, 0.3}};
  wanted.setup.plan.seq_length = 1;
  return wanted;
}

Wanted unet_on(const plan::Grid& grid) {
  Wanted wanted = gpt_on(grid, 8);
  wanted.name = "unet";
  wanted.setup.unet = model::UnetSpec{.picture = {16, 16, 3},
                                      .channels = 64,
                                      .channel_mult = {1, 2},
                                      .layers_per_level = 1,
                                      .attention_resolutions = {8},
                                      .num_heads = 4,
                                      .norm_groups = 8,
                                      .class_conditional = true,
                                      .num_classes = 5,
                                      .diffusion = {.steps = 20, .sampling = {}}};
  wanted.setup.plan.seq_length = 1;
  return wanted;
}

/// A question, its answer, and what both layouts take by the demand of their plans.
struct Searched {
  explicit Searched(const Wanted& wanted)
      : cluster(machine::load_cluster(wanted.machine)),
        model(wanted.setup.graphs()),
        mesh(plan::make_mesh(wanted.setup.plan.grid)),
        batching(std::get<plan::Batching>(plan::solve_batching(wanted.setup.plan))),
        pricer(cluster, *machine::rate_of(cluster.device, DType::f32),
               wanted.setup.plan.bucket_bytes),
        groups(groups_in_order(mesh, wanted.setup.plan.grid.order)),
        start(std::get<plan::Layout>(plan::make_layout(model, wanted.setup.plan, mesh))) {
    auto found = choose_layout(
        train(), start, {&mesh, groups, batching, DType::f32, wanted.setup.plan.bucket_bytes, {}},
        pricer, solve::usual_solver);
    if (auto* layout = std::get_if<ChosenLayout>(&found)) chosen = std::move(*layout);
  }
  const graph::Graph& train() const { return model.at(op::ProgramKind::train); }
  Demand demand(const plan::Layout& layout) const {
    const auto plan = plan::make_plan(model, mesh, layout, batching, DType::f32, {});
    return demand_of(train(), std::get<plan::Plan>(plan));
  }
  double seconds_of(const plan::Layout& layout) {
    return pricer.price(demand(layout), groups).all();
  }
  /// The starts of messages at the end of a step, which several tensors share.
  double shared_seconds(const plan::Layout& layout) {
    double seconds = 0;
    for (const auto& [key, sent] : demand(layout).sent) {
      if (!key.is_at_end) continue;
      std::vector<machine::AxisGroup> along;
      for (const AxisId axis : key.axes) along.push_back(groups[axis.index()]);
      seconds += pricer.seconds(key.kind, along, {sent.calls, 0, 0});
    }
    return seconds;
  }

  machine::Cluster cluster;
  graph::ModelGraphs model;
  Mesh mesh;
  plan::Batching batching;
  Pricer pricer;
  std::vector<machine::AxisGroup> groups;
  plan::Layout start;
  std::optional<ChosenLayout> chosen;
};

class ChooseLayout : public testing::TestWithParam<Wanted> {};

TEST_P(ChooseLayout, takes_what_the_problem_says_and_no_more_than_the_strategy) {
  Searched searched(GetParam());
  ASSERT_TRUE(searched.chosen.has_value());
  const solve::Solution& solution = searched.chosen->solution;
  const double found = searched.seconds_of(searched.chosen->layout);
  const double strategy = searched.seconds_of(searched.start);
  std::printf("%s, %zu nodes, width %zu: cost %.4f ms, demand %.4f ms, strategy %.4f ms\n",
              GetParam().name.c_str(), solution.statistics.nodes,
              solution.statistics.width.value_or(0), 1e3 * solution.cost, 1e3 * found,
              1e3 * strategy);
  const double shared = searched.shared_seconds(searched.chosen->layout);
  EXPECT_NEAR(found, solution.cost, shared) << "but for what tensors share at the end";
  EXPECT_LE(found, 1.01 * strategy);
}

INSTANTIATE_TEST_SUITE_P(Of, ChooseLayout,
                         testing::Values(gpt_on({.x = 2}), gpt_on({.data = 2}), gpt_on({.z = 4}),
                                         gpt_on({.x = 2, .data = 2}), vgg_on({.data = 2}),
                                         vgg_on({.x = 2}), vgg_on({.x = 2, .z = 2}),
                                         unet_on({.data = 2}), unet_on({.x = 2})),
                         [](const auto& one) {
                           return one.param.name + std::to_string(one.index);
                         });

/// What is sent of activations, in calls of a micro-batch.
std::map<std::string, double> sent_of_activations(const Searched& searched) {
  std::map<std::string, double> calls;
  for (const auto& [key, sent] : searched.demand(searched.chosen->layout).sent)
    if (key.purpose == compile::Purpose::activations && !key.is_at_end)
      calls[format("{} of {}{}", to_string(key.kind), key.label,
                   key.is_hideable ? ", backward" : "")] +=
          sent.calls / static_cast<double>(searched.batching.accumulation);
  return calls;
}

using Calls = std::map<std::string, double>;

TEST(ChosenLayouts, of_large_batches_are_data_parallel) {
  const Searched gpt(gpt_on({.data = 4}, 64)), unet(unet_on({.data = 2}));
  EXPECT_EQ(sent_of_activations(gpt), Calls());
  EXPECT_EQ(sent_of_activations(unet), Calls());
}

TEST(ChosenLayouts, of_large_weights_cut_columns_and_rows) {
  Wanted wanted = gpt_on({.x = 4}, 1);
  wanted.setup.gpt.hidden_size = 2048;
  wanted.setup.gpt.ffn_hidden_size = 8192;
  wanted.setup.plan.seq_length = 32;
  const Searched searched(wanted);
  // Two in each of two blocks, each way.
  EXPECT_EQ(sent_of_activations(searched),
            Calls({{"all_reduce of linear", 4}, {"all_reduce of linear, backward", 4}}));
  const AxisId x = plan::axes_of(searched.mesh).x;
  const auto& ops = searched.chosen->layout.ops;
  EXPECT_EQ(ops.at("blocks.0.mlp.up"), plan::FactorAxes({{'p', {x}}})) << "columns";
  EXPECT_EQ(ops.at("blocks.0.mlp.down"), plan::FactorAxes({{'k', {x}}})) << "rows";
}

TEST(ChosenLayouts, of_a_million_classes_cut_them_and_the_samples_of_convolutions) {
  Wanted wanted = vgg_on({.data = 4});
  wanted.setup.vgg->num_classes = 1'000'000;
  const Searched searched(wanted);
  const AxisId data = plan::axes_of(searched.mesh).data;
  const plan::Layout& layout = searched.chosen->layout;
  EXPECT_EQ(layout.ops.at("conv.0"), plan::FactorAxes({{'b', {data}}}));
  EXPECT_EQ(layout.ops.at("conv.1"), plan::FactorAxes({{'b', {data}}}));
  EXPECT_EQ(layout.ops.at("head"), plan::FactorAxes({{'p', {data}}}));
  const std::vector<op::Cuts> classes = {{}, {{data, std::nullopt}}};
  EXPECT_EQ(layout.parameters.at("head.weight").rest.dims, classes);
}

TEST(ChosenLayouts, of_equal_questions_are_equal) {
  const Searched one(gpt_on({.x = 2})), other(gpt_on({.x = 2}));
  EXPECT_EQ(one.chosen->layout, other.chosen->layout);
  EXPECT_EQ(one.chosen->solution, other.chosen->solution);
}

/// As figure 10 of the paper: each layer for itself.
TEST(ChosenLayouts, of_72_layers_are_found_as_those_of_few_are) {
  Wanted wanted = gpt_on({.data = 8}, 4);
  wanted.setup.gpt = {.num_layers = 72,
                      .num_attention_heads = 8,
                      .hidden_size = 512,
                      .ffn_hidden_size = 2048,
                      .max_position_embeddings = 512,
                      .vocab_size = 50304};
  wanted.setup.plan.seq_length = 512;
  const Searched searched(wanted);
  ASSERT_TRUE(searched.chosen.has_value());
  EXPECT_LE(searched.chosen->solution.statistics.width, 8U);
  EXPECT_EQ(searched.chosen->layout.ops.at("blocks.70.mlp.up"),
            searched.chosen->layout.ops.at("blocks.1.mlp.up"));
}

}  // namespace
}  // namespace fourfold::search
