#include "pipeline/dependencies.h"

#include <map>
#include <tuple>

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

/// Expects every task of `steps` after those that the graph of stages says it needs.
void expect_satisfied(const std::vector<Order>& orders, const std::vector<Edge>& edges,
                      const std::vector<Step>& steps) {
  std::map<std::tuple<TaskKind, std::size_t, std::int64_t>, bool> done;
  std::vector<std::size_t> at(orders.size());
  for (const Step& step : steps) {
    EXPECT_EQ(step.place, at[step.mesh]++);
    const Task& task = orders[step.mesh][step.place];
    for (const Edge& edge : edges) {
      if (task.kind == TaskKind::forward && edge.to == task.stage) {
        EXPECT_TRUE((done[{TaskKind::forward, edge.from, task.micro}]));
      }
      if (task.kind == TaskKind::backward && edge.from == task.stage) {
        EXPECT_TRUE((done[{TaskKind::backward, edge.to, task.micro}]));
      }
    }
    if (task.kind == TaskKind::backward) {
      EXPECT_TRUE((done[{TaskKind::forward, task.stage, task.micro}]));
    }
    if (task.kind == TaskKind::weight_backward) {
      EXPECT_TRUE((done[{TaskKind::backward, task.stage, task.micro}]));
    }
    done[{task.kind, task.stage, task.micro}] = true;
  }
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh) EXPECT_EQ(at[mesh], orders[mesh].size());
}

TEST(Steps, of_every_pipeline_come_to_their_end_with_all_skips) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    for (const bool splits : {false, true}) {
      const std::vector<Order> orders = made(splits ? with_delay(spec, 1) : spec, meshes, micros);
      const std::size_t stages = stages_of(spec, meshes);
      const std::vector<Edge> edges = stages <= 6 ? all_skips(stages) : chain(stages);
      const auto steps = steps_in_order(orders, edges);
      ASSERT_TRUE(std::holds_alternative<std::vector<Step>>(steps))
          << to_text(std::get<Stuck>(steps));
      expect_satisfied(orders, edges, std::get<std::vector<Step>>(steps));
    }
  });
}

/// The messages from one mesh to another: those of forward tasks as kind forward, by the task that
/// reads them.
using Messages = std::vector<Task>;

/// What a mesh sends to each other one, in the order of its tasks.
std::map<std::pair<std::size_t, std::size_t>, Messages> sent(const std::vector<Order>& orders,
                                                             const std::vector<Edge>& edges) {
  const std::vector<std::size_t> mesh_of = meshes_of_stages(orders, extent_of(orders).stages);
  std::map<std::pair<std::size_t, std::size_t>, Messages> result;
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
    for (const Task& task : orders[mesh])
      for (const Edge& edge : edges) {
        if (task.kind == TaskKind::forward && edge.from == task.stage)
          result[{mesh, mesh_of[edge.to]}].push_back({task.kind, edge.to, task.micro});
        if (task.kind == TaskKind::backward && edge.to == task.stage)
          result[{mesh, mesh_of[edge.from]}].push_back({task.kind, edge.from, task.micro});
      }
  return result;
}

/// What a mesh takes from each other one, in the order of its tasks.
std::map<std::pair<std::size_t, std::size_t>, Messages> taken(const std::vector<Order>& orders,
                                                              const std::vector<Edge>& edges) {
  const std::vector<std::size_t> mesh_of = meshes_of_stages(orders, extent_of(orders).stages);
  std::map<std::pair<std::size_t, std::size_t>, Messages> result;
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
    for (const Task& task : orders[mesh])
      for (const Edge& edge : edges) {
        if (task.kind == TaskKind::forward && edge.to == task.stage)
          result[{mesh_of[edge.from], mesh}].push_back(task);
        if (task.kind == TaskKind::backward && edge.from == task.stage)
          result[{mesh_of[edge.to], mesh}].push_back(task);
      }
  return result;
}

/// So a send may wait for its receive: the two sides of each pair of meshes agree on the sequence.
TEST(Messages, to_each_mesh_are_sent_in_the_order_in_which_it_takes_them) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    const std::vector<Order> orders = made(spec, meshes, micros);
    const std::size_t stages = stages_of(spec, meshes);
    // Within a mesh nothing is sent: with one mesh all messages are its own.
    if (meshes == 1) return;
    EXPECT_EQ(sent(orders, chain(stages)), taken(orders, chain(stages)));
    if (spec.stages_per_mesh == 1) {
      EXPECT_EQ(sent(orders, all_skips(stages)), taken(orders, all_skips(stages)));
    }
  });
}

TEST(Steps, that_wait_for_each_other_are_told_as_a_circle) {
  // Stage 0 wants the gradient of micro-batch 0 before it has sent micro-batch 1, which stage 1
  // wants first.
  const std::vector<Order> orders = {order_ahead(0, 2, 1), order_ahead(1, 2, 2)};
  const auto steps = steps_in_order(orders, chain(2));
  ASSERT_TRUE(std::holds_alternative<Stuck>(steps));
  EXPECT_EQ(to_text(std::get<Stuck>(steps)),
            "mesh 0 waits at B0 of stage 0 for B0 of stage 1; mesh 1 waits at F1 of stage 1 for F1 "
            "of stage 0");
}

TEST(Steps, that_a_circle_of_others_holds_up_are_no_part_of_it) {
  // Mesh 0 waits for the circle of meshes 1 and 2.
  const std::vector<Order> orders = {order_ahead(0, 2, 2), order_ahead(1, 2, 1),
                                     order_ahead(2, 2, 2)};
  const auto steps = steps_in_order(orders, chain(3));
  EXPECT_EQ(to_text(std::get<Stuck>(steps)),
            "mesh 1 waits at B0 of stage 1 for B0 of stage 2; mesh 2 waits at F1 of stage 2 for F1 "
            "of stage 1");
}

TEST(Steps, that_need_what_no_order_names_are_stuck) {
  const Order first = order_of(Schedule::gpipe, {0, 2}, 1);
  const auto without_backward = steps_in_order({first, {{TaskKind::forward, 1, 0}}}, chain(2));
  EXPECT_EQ(to_text(std::get<Stuck>(without_backward)),
            "mesh 0 waits at B0 of stage 0 for B0 of stage 1");
  const auto without_mesh = steps_in_order({first}, chain(2));
  EXPECT_EQ(to_text(std::get<Stuck>(without_mesh)),
            "mesh 0 waits at B0 of stage 0 for B0 of stage 1");
  const auto backward_first =
      steps_in_order({{{TaskKind::backward, 0, 0}, {TaskKind::forward, 0, 0}}}, {});
  EXPECT_EQ(to_text(std::get<Stuck>(backward_first)),
            "mesh 0 waits at B0 of stage 0 for F0 of stage 0");
}

}  // namespace
}  // namespace fourfold::pipeline
