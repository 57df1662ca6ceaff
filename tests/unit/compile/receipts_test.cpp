// When a mesh receives: ahead of its readers, in the order in which its peers send.
#include "compile/receipts.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "compile/mesh_order.h"
#include "pipeline/make_orders.h"

namespace fourfold::compile {
namespace {

using graph::Phase;

/// A training step of meshes with an order each, and edges without values.
plan::Plan plan_of(std::size_t meshes, std::int64_t laps, std::int64_t micros,
                   const std::vector<std::tuple<std::size_t, std::size_t, Phase>>& edges) {
  plan::Plan plan;
  plan.meshes.resize(meshes);
  plan.layers.assign(meshes * static_cast<std::size_t>(laps), 1);
  plan.schedule = {.schedule = pipeline::Schedule::interleaved, .stages_per_mesh = laps};
  plan.orders = std::get<0>(pipeline::make_orders(plan.schedule, meshes, micros));
  for (const auto& [from, to, phase] : edges) {
    plan::Edge edge{op::ProgramKind::train, "v",  "v", plan.mesh_of_stage(from),
                    plan.mesh_of_stage(to), phase};
    edge.from_stage = from;
    edge.to_stage = to;
    plan.edges.push_back(edge);
  }
  return plan;
}

/// What a mesh receives along all edges that lead to it.
ShardedGraph graph_of(const plan::Plan& plan, MeshId mesh) {
  ShardedGraph graph;
  graph.kind = op::ProgramKind::train;
  graph.mesh = mesh;
  for (std::size_t edge = 0; edge < plan.edges.size(); ++edge)
    if (plan.edges[edge].to == mesh)
      graph.steps.emplace_back(Handover{edge, false, graph::ValueId(edge), plan.edges[edge].phase,
                                        plan.edges[edge].to_stage});
  return graph;
}

TEST(Receipts, stand_before_the_task_of_their_kind_before_their_reader) {
  const plan::Plan plan = plan_of(2, 1, 4, {{0, 1, Phase::forward}, {1, 0, Phase::backward}});
  const std::vector<Receipt> second = receipts_of(graph_of(plan, MeshId(std::size_t{1})), plan);
  // F0 B0 F1 B1 F2 B2 F3 B3: what F1 reads comes before F0.
  EXPECT_EQ(second, (std::vector<Receipt>{{0, 0, 0, 0}, {0, 1, 2, 0}, {0, 2, 4, 2}, {0, 3, 6, 4}}));
}

TEST(Receipts, that_nothing_may_run_beside_stand_before_their_reader) {
  plan::Plan plan = plan_of(2, 1, 4, {{0, 1, Phase::forward}});
  plan.overlap.send_recv = false;
  for (const Receipt& receipt : receipts_of(graph_of(plan, MeshId(std::size_t{1})), plan))
    EXPECT_EQ(receipt.before, receipt.reader);
}

/// Stage 0 sends to stage 1 and, over it, to stage 3 of the same mesh; the latter is read later
/// than what stage 2 sends, but sent earlier.
TEST(Receipts, come_in_the_order_in_which_a_mesh_sends) {
  const plan::Plan plan = plan_of(2, 2, 4,
                                  {{0, 3, Phase::forward},
                                   {0, 1, Phase::forward},
                                   {2, 3, Phase::forward},
                                   {2, 1, Phase::backward}});
  const ShardedGraph graph = graph_of(plan, MeshId(std::size_t{1}));
  const MeshOrder sender(plan, op::ProgramKind::train, MeshId(std::size_t{0}));
  std::vector<std::pair<std::size_t, std::size_t>> sent;  // the task that sends it, and the edge
  std::size_t before = 0;
  const std::vector<Receipt> receipts = receipts_of(graph, plan);
  for (const Receipt& receipt : receipts) {
    const plan::Edge& edge = plan.edges[std::get<Handover>(graph.steps[receipt.step]).edge];
    sent.emplace_back(sender.place(task_of(edge.phase), edge.from_stage, receipt.micro),
                      std::get<Handover>(graph.steps[receipt.step]).edge);
    EXPECT_LE(receipt.before, receipt.reader);
    EXPECT_GE(receipt.before, before);
    before = receipt.before;
  }
  EXPECT_EQ(receipts.size(), 16U);
  EXPECT_TRUE(std::ranges::is_sorted(sent));
}

TEST(MeshOrder, has_one_update_and_one_task_for_graphs_that_do_not_train) {
  const plan::Plan plan = plan_of(2, 2, 4, {});
  const MeshOrder train(plan, op::ProgramKind::train, MeshId(std::size_t{1})),
      evaluate(plan, op::ProgramKind::evaluate, MeshId(std::size_t{1}));
  EXPECT_EQ(train.micros(), 4);
  EXPECT_EQ(train.tasks().size(), 17U);
  EXPECT_EQ(train.place(pipeline::TaskKind::update, 3, 0), 16U);
  EXPECT_TRUE(evaluate.is_one_task());
  EXPECT_EQ(evaluate.place(pipeline::TaskKind::forward, 3, 0), 0U);
}

}  // namespace
}  // namespace fourfold::compile
