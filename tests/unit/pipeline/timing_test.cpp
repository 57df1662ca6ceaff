#include "pipeline/timing.h"

#include <numeric>

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

Interval at(double begin_s, double end_s) {
  return {begin_s, end_s};
}

/// Two stages and two micro-batches, worked out by hand: F takes 2, B 3, a message 1 there and 4
/// back.
const Uniform by_hand = {2, 3, 0, 1, 4};

TEST(Timing, lets_a_mesh_compute_while_messages_travel) {
  const std::vector<Order> orders = made({}, 2, 2);  // F0 F1 B0 B1; F0 B0 F1 B1
  const Timing timing = timed(orders, costs_of(2, by_hand));
  EXPECT_EQ(timing.tasks[0], (std::vector{at(0, 2), at(2, 4), at(12, 15), at(17, 20), at(20, 20)}));
  EXPECT_EQ(timing.tasks[1], (std::vector{at(3, 5), at(5, 8), at(8, 10), at(10, 13), at(13, 13)}));
  EXPECT_EQ(timing.edges[0].forward[1].sent, at(4, 5));
  EXPECT_EQ(timing.edges[0].backward[0].received, at(8, 12));
  EXPECT_EQ(timing.makespan_s, 20);
  EXPECT_EQ(idle_shares(timing), (std::vector{0.5, 0.5}));
}

TEST(Timing, sends_one_message_at_a_time_between_two_meshes) {
  Costs costs = costs_of(2, {2, 3, 0, 5, 0});
  const Timing timing = timed(made({.schedule = Schedule::gpipe}, 2, 3), costs);
  const auto& messages = timing.edges[0].forward;
  EXPECT_EQ(messages[0].sent, at(2, 7));
  EXPECT_EQ(messages[1].sent, at(7, 12));
  EXPECT_EQ(messages[2].sent, at(12, 17));
  EXPECT_EQ(timing.tasks[0][2], at(4, 6));  // the sender has long gone on
}

TEST(Timing, keeps_a_sender_from_its_next_task_where_transfers_block_it) {
  const std::vector<Order> orders = made({}, 2, 2);
  const Timing timing = timed(orders, costs_of(2, by_hand, Transfers::block_sender));
  EXPECT_EQ(timing.tasks[0], (std::vector{at(0, 2), at(3, 5), at(12, 15), at(21, 24), at(24, 24)}));
  EXPECT_EQ(timing.tasks[1], (std::vector{at(3, 5), at(5, 8), at(12, 14), at(14, 17), at(21, 21)}));
}

TEST(Timing, keeps_a_receiver_too_where_transfers_block_both) {
  const std::vector<Order> orders = made({}, 2, 2);
  const Timing timing = timed(orders, costs_of(2, by_hand, Transfers::block_both));
  // Mesh 1 has taken micro-batch 1 only once it has sent the gradient of micro-batch 0.
  EXPECT_EQ(timing.tasks[1], (std::vector{at(3, 5), at(5, 8), at(13, 15), at(15, 18), at(22, 22)}));
  EXPECT_EQ(timing.tasks[0], (std::vector{at(0, 2), at(3, 5), at(12, 15), at(22, 25), at(25, 25)}));
  EXPECT_EQ(timing.edges[0].forward[1].sent, at(5, 6));
  EXPECT_EQ(timing.edges[0].forward[1].received, at(12, 13));
}

TEST(Timing, lets_a_gradient_leave_before_the_part_of_weights) {
  const std::vector<Order> whole = made({}, 2, 2), split = made(with_delay({}, 0), 2, 2);
  const Uniform costs{2, 1, 2, 1, 4};
  EXPECT_EQ(timed(whole, costs_of(2, costs)).tasks[1][1], at(5, 8));
  const Timing timing = timed(split, costs_of(2, costs));
  EXPECT_EQ(timing.tasks[1][1], at(5, 6));
  EXPECT_EQ(timing.edges[0].backward[0].sent, at(6, 10));
  EXPECT_EQ(timing.tasks[1][2], at(6, 8));
}

TEST(Timing, makes_a_skip_wait_like_any_other_message) {
  Costs costs = costs_of(3, {1, 1, 0, 1, 1});
  costs.edges.push_back({0, 2});
  costs.of_edges.push_back({20, 30});
  const Timing timing = timed(made({}, 3, 1), costs);
  EXPECT_EQ(timing.tasks[2][0], at(21, 22));  // the skip takes longer than the way through stage 1
  EXPECT_EQ(timing.tasks[0][1], at(53, 54));
}

TEST(Timing, sends_nothing_between_stages_of_one_mesh) {
  const Costs costs = costs_of(2, {1, 1, 0, 100, 100});
  const Timing timing =
      timed(made({.schedule = Schedule::interleaved, .stages_per_mesh = 2}, 1, 4), costs);
  EXPECT_EQ(timing.makespan_s, 16);
  EXPECT_EQ(idle_shares(timing), std::vector{0.0});
}

TEST(Timing, tells_orders_that_wait_for_each_other) {
  const auto result = time_orders({order_ahead(0, 2, 1), order_ahead(1, 2, 2)}, costs_of(2, {}));
  ASSERT_TRUE(std::holds_alternative<Stuck>(result));
  EXPECT_EQ(std::get<Stuck>(result).circle.size(), 2U);
}

/// Without transfers all stages have the ramp of a pipeline and nothing more, whatever the order.
TEST(Timing, of_all_schedules_is_the_same_where_transfers_are_free) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    const double f = 1.5, b = 2.25;
    const auto laps = static_cast<double>(spec.stages_per_mesh);
    const Timing timing =
        timed(made(spec, meshes, micros), costs_of(stages_of(spec, meshes), {f / laps, b / laps}));
    // Narayanan et al. 2021, section 2.2.2: v stages a mesh shorten the ramp v times.
    const double ramp = (static_cast<double>(meshes) - 1) / laps;
    EXPECT_NEAR(timing.makespan_s, (static_cast<double>(micros) + ramp) * (f + b), 1e-9);
    for (const double idle : idle_shares(timing))
      EXPECT_NEAR(idle, ramp / (static_cast<double>(micros) + ramp), 1e-9);
  });
}

/// Half a million tasks, which take about a tenth of a second.
TEST(Timing, of_a_long_step_has_the_period_of_its_tasks) {
  const std::int64_t micros = 20000;
  const std::vector<Order> orders =
      made(with_delay({.schedule = Schedule::eager_one_f_one_b}, 2), 8, micros);
  const Timing timing = timed(orders, costs_of(8, {1, 1, 1, 0.5, 0.5}));
  const std::size_t tasks =
      std::accumulate(orders.begin(), orders.end(), std::size_t{0},
                      [](std::size_t sum, const Order& order) { return sum + order.size(); });
  EXPECT_EQ(tasks, 8U * (3U * 20000U + 1U));
  EXPECT_NEAR(steady_period_s(orders, timing), 3, 1e-6);
}

}  // namespace
}  // namespace fourfold::pipeline
