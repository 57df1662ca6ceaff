// Models cut into stages: which layers each has, what passes between them, and when that cannot be.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/model.h"
#include "plan/balance_stages.h"
#include "plan/plan.h"

namespace fourfold::plan {
namespace {

model::GptSpec gpt(std::int64_t layers, std::int64_t vocabulary) {
  return {.num_layers = layers,
          .num_attention_heads = 2,
          .hidden_size = 8,
          .ffn_hidden_size = 16,
          .max_position_embeddings = 4,
          .vocab_size = vocabulary};
}

graph::ModelGraphs graphs_of(const model::GptSpec& spec) {
  return model::build(spec, {2, 4, 4}, {});
}

std::vector<std::int64_t> last_layers(const graph::ModelGraphs& model, const PipelineSpec& spec) {
  return std::get<0>(balance_stages(model.at(op::ProgramKind::train), model.num_layers, spec));
}

TEST(BalanceStages, divides_equal_layers_evenly_and_gives_fewer_beside_a_large_head) {
  const graph::ModelGraphs even = graphs_of(gpt(8, 4));
  EXPECT_EQ(last_layers(even, {.stages = 2}), (std::vector<std::int64_t>{3}));
  EXPECT_EQ(last_layers(even, {.stages = 4}), (std::vector<std::int64_t>{1, 3, 5}));
  const std::int64_t with_head = last_layers(graphs_of(gpt(8, 4000)), {.stages = 2})[0];
  EXPECT_GT(with_head, 3);
}

TEST(BalanceStages, gives_a_stage_with_more_ranks_more_layers) {
  const graph::ModelGraphs model = graphs_of(gpt(8, 4));
  const PipelineSpec uneven{.stages = 2, .grids = {{.x = 2, .data = 3}, {.data = 2}}};
  EXPECT_EQ(last_layers(model, uneven), (std::vector<std::int64_t>{5}));
}

TEST(BalanceStages, takes_the_numbers_that_are_given) {
  const graph::ModelGraphs model = graphs_of(gpt(5, 4));
  EXPECT_EQ(last_layers(model, {.stages = 3, .layers = {1, 3, 1}}),
            (std::vector<std::int64_t>{0, 3}));
}

TEST(BalanceStages, refuses_numbers_that_do_not_add_up_and_more_stages_than_layers) {
  const graph::ModelGraphs model = graphs_of(gpt(5, 4));
  for (const PipelineSpec& spec :
       {PipelineSpec{.stages = 6}, PipelineSpec{.stages = 2, .layers = {2, 2}},
        PipelineSpec{.stages = 2, .layers = {5, 0}}, PipelineSpec{.stages = 2, .layers = {5}}}) {
    const auto refused = balance_stages(model.at(op::ProgramKind::train), model.num_layers, spec);
    const auto& problem = std::get<UnevenLayers>(std::get<Infeasible>(refused).problems.at(0));
    EXPECT_EQ(problem.layers, 5);
    EXPECT_EQ(problem.stages, spec.stages);
    EXPECT_EQ(problem.given, spec.layers);
  }
}

/// Every stage count of a U-Net trains: each gradient is made where its parameter is, and what
/// several blocks of a stage read of another one has its gradient sent once.
TEST(SplitStages, of_a_unet_send_each_gradient_of_a_skip_once) {
  const model::UnetSpec unet{.picture = {8, 8, 3},
                             .channels = 8,
                             .channel_mult = {1, 2},
                             .layers_per_level = 1,
                             .norm_groups = 4,
                             .num_classes = 4,
                             .diffusion = {}};
  const graph::ModelGraphs model = model::build(unet, {2, 1, 4}, {});
  for (std::int64_t cut = 0; cut + 1 < model.num_layers; ++cut) {
    const Stages stages = split_stages(model.at(op::ProgramKind::train), {cut}, 2);
    std::set<std::string> back;
    for (const Edge& edge : stages.edges) {
      if (edge.phase != graph::Phase::backward) continue;
      const graph::Graph& sender = stages.graphs[edge.from.index()];
      const graph::Value& value = sender.value(*sender.find(edge.value));
      ASSERT_TRUE(value.gradient_of.has_value()) << edge.value;
      EXPECT_TRUE(back.insert(sender.value(*value.gradient_of).name).second)
          << "after layer " << cut << ": " << edge.value;
    }
    EXPECT_FALSE(back.empty()) << cut;
    for (const graph::Graph& graph : stages.graphs) EXPECT_NO_THROW(graph::check(graph));
  }
}

/// Stages that share a mesh share its parameters, gradients and skips: what they hand each other is
/// no edge, and what several of them read comes once.
TEST(SplitStages, that_share_a_mesh_send_each_other_nothing) {
  const graph::ModelGraphs model = graphs_of(gpt(6, 4));
  const graph::Graph& train = model.at(op::ProgramKind::train);
  const Stages alone = split_stages(train, {0, 1, 2, 3, 4}, 6),
               two = split_stages(train, {0, 1, 2, 3, 4}, 2),
               one = split_stages(train, {0, 1, 2, 3, 4}, 1);
  EXPECT_TRUE(one.edges.empty());
  ASSERT_EQ(one.graphs.size(), 1U);
  EXPECT_EQ(one.graphs[0].nodes.size(), train.nodes.size());
  std::set<std::pair<std::string, std::size_t>> received;
  for (const Edge& edge : two.edges) {
    EXPECT_NE(edge.from, edge.to);
    EXPECT_EQ(edge.from.index(), edge.from_stage % 2);
    EXPECT_EQ(edge.to.index(), edge.to_stage % 2);
    EXPECT_TRUE(received.emplace(edge.into, edge.to.index()).second) << edge.into;
  }
  // The head's mesh reads the table of the other one; on six meshes the loss of the last one goes
  // to five others.
  EXPECT_LT(two.edges.size(), alone.edges.size());
  for (const graph::Graph& graph : two.graphs) {
    EXPECT_NO_THROW(graph::check(graph));
    std::set<std::size_t> stages;
    for (const graph::Node& node : graph.nodes)
      if (node.phase != graph::Phase::update) stages.insert(node.stage);
    const std::size_t mesh = graph.mesh.index();
    EXPECT_EQ(stages, (std::set<std::size_t>{mesh, mesh + 2, mesh + 4}));
  }
}

TEST(PlanModel, deals_stages_out_to_meshes_in_turn) {
  PlanSpec spec{.global_batch_size = 8, .micro_batch_size = 2, .seq_length = 4};
  spec.grid.x = 2;
  spec.pipeline = {.stages = 6, .stages_per_mesh = 3, .schedule = pipeline::Schedule::interleaved};
  const auto made = plan_model(graphs_of(gpt(8, 4)), spec);
  const auto& [model, plan] = std::get<PlannedModel>(made);
  EXPECT_EQ(plan.world, 4);
  ASSERT_EQ(plan.meshes.size(), 2U);
  EXPECT_EQ(plan.num_stages(), 6U);
  EXPECT_EQ(plan.mesh_of_stage(5), MeshId(std::size_t{1}));
  for (std::size_t mesh = 0; mesh < 2; ++mesh)
    EXPECT_EQ(plan.orders[mesh], pipeline::interleaved_order({mesh, 2, 3}, 4));
  std::vector<std::int64_t> all;
  for (std::size_t mesh = 0; mesh < 2; ++mesh)
    for (const std::int64_t layer : layers_on(plan, MeshId(mesh), 8)) all.push_back(layer);
  EXPECT_EQ(all.size(), 8U);
  std::ranges::sort(all);
  EXPECT_EQ(all.front(), 0);
  EXPECT_EQ(all.back(), 7);
}

TEST(PlanModel, refuses_stages_that_meshes_cannot_share) {
  using pipeline::Schedule;
  const auto refused = [&](const PipelineSpec& pipeline) {
    PlanSpec spec{.global_batch_size = 6, .micro_batch_size = 2, .seq_length = 4};
    spec.pipeline = pipeline;
    const auto made = plan_model(graphs_of(gpt(6, 4)), spec);
    return std::get<Infeasible>(made).problems.at(0);
  };
  const auto uneven =
      refused({.stages = 5, .stages_per_mesh = 2, .schedule = Schedule::interleaved});
  EXPECT_EQ(std::get<UnevenStages>(uneven).stages, 5);
  const auto groups =
      refused({.stages = 4, .stages_per_mesh = 2, .schedule = Schedule::interleaved});
  EXPECT_EQ(std::get<RefusedSchedule>(groups).refusal,
            pipeline::Refusal(pipeline::UnevenGroups{3, 2}));
  const auto other = refused({.stages = 4, .stages_per_mesh = 2, .schedule = Schedule::gpipe});
  EXPECT_EQ(std::get<RefusedSchedule>(other).refusal,
            pipeline::Refusal(pipeline::SeveralStages{Schedule::gpipe, 2}));
  const auto many = refused({.stages = 8, .stages_per_mesh = 2, .schedule = Schedule::interleaved});
  EXPECT_EQ(std::get<UnevenLayers>(many).layers, 6);
}

TEST(PlanModel, gives_equal_stages_the_grid_of_the_spec_one_after_another) {
  PlanSpec spec{.global_batch_size = 4, .micro_batch_size = 2, .seq_length = 4};
  spec.grid.x = 2;
  spec.pipeline = {.stages = 2, .schedule = pipeline::Schedule::eager_one_f_one_b};
  const auto made = plan_model(graphs_of(gpt(4, 4)), spec);
  const auto& [model, plan] = std::get<PlannedModel>(made);
  EXPECT_EQ(plan.world, 4);
  ASSERT_EQ(plan.meshes.size(), 2U);
  EXPECT_EQ(plan.meshes[1].ranks, Ranks(Rank(2), 2));
  EXPECT_EQ(plan.layers, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(most_warm_ups(plan), 1);
  for (const Edge& edge : plan.edges) {
    EXPECT_EQ(edge.sent.mesh, edge.from);
    EXPECT_EQ(edge.received.mesh, edge.to);
  }
}

TEST(SolveGrid, divides_the_ranks_of_a_job_among_stages) {
  PlanSpec spec;
  spec.grid = {.x = 2, .data = 1};
  spec.pipeline.stages = 3;
  const auto solved = [&](std::int64_t ranks) { return solve_grid(spec, ranks, DataRanks::open); };
  EXPECT_EQ(std::get<Grid>(solved(12)).data, 2);
  const auto uneven = solved(8);
  EXPECT_EQ(std::get<UnevenJob>(std::get<Infeasible>(uneven).problems.at(0)).stages, 3);
  spec.pipeline.grids = {{.x = 2, .data = 1}, {.data = 2}, {.data = 3}};
  EXPECT_EQ(std::get<Grid>(solved(7)).x, 2);
  const auto few = solved(6);
  spec.pipeline = {.stages = 6, .stages_per_mesh = 3};
  EXPECT_EQ(std::get<Grid>(solved(12)).data, 3);
  EXPECT_EQ(std::get<UnevenJob>(std::get<Infeasible>(solved(6)).problems.at(0)).stages_per_mesh, 3);
  spec.pipeline.stages = 7;
  EXPECT_EQ(std::get<UnevenStages>(std::get<Infeasible>(solved(12)).problems.at(0)).stages, 7);
  EXPECT_EQ(std::get<UnevenMeshes>(std::get<Infeasible>(few).problems.at(0)).ranks_of_meshes, 7);
}

}  // namespace
}  // namespace fourfold::plan
