#include "pipeline/choose_orders.h"

#include <algorithm>
#include <optional>
#include <random>

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

const WeightDelay automatic{WeightDelay::Kind::automatic, 0};

ChosenOrders chosen(ScheduleSpec spec, std::size_t meshes, std::int64_t micros,
                    const Costs& costs) {
  return std::get<ChosenOrders>(choose_orders(spec, meshes, micros, costs));
}

TEST(ChooseOrders, takes_the_delay_of_the_spec_as_it_is) {
  const Costs costs = costs_of(3, {1, 1, 1, 0.5, 0.5});
  EXPECT_EQ(chosen({}, 3, 4, costs).orders, made({}, 3, 4));
  EXPECT_EQ(chosen({}, 3, 4, costs).delay, std::nullopt);
  const ScheduleSpec two = with_delay({}, 2);
  EXPECT_EQ(chosen(two, 3, 4, costs).orders, made(two, 3, 4));
  EXPECT_EQ(chosen(two, 3, 4, costs).delay, 2);
}

TEST(ChooseOrders, hands_on_why_there_are_none) {
  const auto result =
      choose_orders({.weight_delay = automatic, .caps = {1, 1}}, 2, 4, costs_of(2, {}));
  EXPECT_EQ(std::get<Refusal>(result), Refusal(TooManyInFlight{0, 2, 1}));
}

TEST(ChooseOrders, gives_weights_no_tasks_of_their_own_where_no_stage_waits_for_a_gradient) {
  const Costs costs = costs_of(1, {1, 1, 1, 0, 0});
  EXPECT_EQ(chosen({.weight_delay = automatic}, 1, 8, costs).delay, std::nullopt);
}

/// Uniform stages: nothing is gained by more than to let gradients leave first.
TEST(ChooseOrders, finds_that_uniform_stages_need_no_delay_to_reach_the_period) {
  const Costs costs = costs_of(4, {1, 1, 1, 1, 1});
  const ScheduleSpec eager{.schedule = Schedule::eager_one_f_one_b};
  const std::vector<Order> at_once = made(with_delay(eager, 0), 4, 64);
  EXPECT_NEAR(steady_period_s(at_once, timed(at_once, costs)), 3, 0.01);
}

/// All delays tried, of meshes with room for them, and the least of the shortest taken.
struct Best {
  std::optional<std::int64_t> delay;
  double makespan_s = 0;
};
Best best_of_all(const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros,
                 const Costs& costs) {
  const std::vector<Order> plain = made(spec, meshes, micros);
  Best best{std::nullopt, timed(plain, costs).makespan_s};
  for (std::int64_t delay = 0; delay <= micros; ++delay) {
    std::vector<Order> orders;
    for (std::size_t mesh = 0; mesh < meshes; ++mesh) {
      std::int64_t own = delay;
      if (!spec.caps.empty() && spec.caps[mesh])
        while (own > 0 && slots_between(with_weight_tasks(plain[mesh], own), TaskKind::forward,
                                        TaskKind::weight_backward) > *spec.caps[mesh])
          --own;
      orders.push_back(with_weight_tasks(plain[mesh], own));
    }
    const double makespan_s = timed(orders, costs).makespan_s;
    if (makespan_s < best.makespan_s * (1 - 1e-9)) best = {delay, makespan_s};
  }
  return best;
}

TEST(ChooseOrders, finds_the_least_delay_with_the_shortest_step_under_a_cap) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> seconds(0.2, 3);
  int delayed = 0;
  for (const Schedule schedule :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b})
    for (std::size_t meshes = 1; meshes <= 6; ++meshes)
      for (int round = 0; round < 12; ++round) {
        const std::int64_t micros = 1 + static_cast<std::int64_t>(random() % 16);
        Costs costs = costs_of(meshes, {});
        for (StageCost& cost : costs.stages)
          cost = {seconds(random), seconds(random), seconds(random)};
        for (EdgeCost& cost : costs.of_edges) cost = {seconds(random), seconds(random)};
        ScheduleSpec spec{.schedule = schedule};
        for (std::size_t mesh = 0; round % 2 == 1 && mesh < meshes; ++mesh)
          spec.caps.emplace_back(most_in_flight(schedule, {mesh, meshes}, micros) +
                                 static_cast<std::int64_t>(random() % 3));
        const Best best = best_of_all(spec, meshes, micros, costs);
        ScheduleSpec with_auto = spec;
        with_auto.weight_delay = automatic;
        const ChosenOrders found = chosen(with_auto, meshes, micros, costs);
        EXPECT_EQ(found.timing.makespan_s, best.makespan_s);
        EXPECT_EQ(found.delay, best.delay);
        EXPECT_EQ(timed(found.orders, costs).makespan_s, found.timing.makespan_s);
        if (found.delay && *found.delay > 0) ++delayed;
        for (std::size_t mesh = 0; mesh < meshes && !spec.caps.empty() && found.delay; ++mesh)
          EXPECT_LE(slots_between(found.orders[mesh], TaskKind::forward, TaskKind::weight_backward),
                    spec.caps[mesh].value());
      }
  EXPECT_GT(delayed, 10);  // a delay above 0 is worth its memory in many of these
}

/// Where gradients take longer to travel than a micro-batch leaves room for, 1F1B's stages have
/// weights to see to while they wait.
TEST(ChooseOrders, fills_the_wait_for_slow_gradients) {
  const Costs costs = costs_of(2, {1, 1, 1, 0.2, 1.5});
  const ScheduleSpec whole{};
  const ScheduleSpec with_auto{.weight_delay = automatic};
  const double plain_s = chosen(whole, 2, 32, costs).timing.makespan_s;
  const ChosenOrders found = chosen(with_auto, 2, 32, costs);
  ASSERT_TRUE(found.delay.has_value());
  EXPECT_LT(found.timing.makespan_s, 0.95 * plain_s);
}

}  // namespace
}  // namespace fourfold::pipeline
