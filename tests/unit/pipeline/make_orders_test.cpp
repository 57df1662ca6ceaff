#include "pipeline/make_orders.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "unit/pipeline/pipelines.h"

namespace fourfold::pipeline {
namespace {

/// How many forward tasks of a mesh have no task of the kind `last` yet at most, counted.
std::int64_t counted(const Order& order, TaskKind last) {
  std::int64_t alive = 0, most = 0;
  for (const Task& task : order) {
    if (task.kind == TaskKind::forward) most = std::max(most, ++alive);
    if (task.kind == last) --alive;
  }
  return most;
}

std::int64_t closed_form(const ScheduleSpec& spec, std::size_t mesh, std::size_t meshes,
                         std::int64_t micros) {
  return spec.schedule == Schedule::interleaved
             ? most_in_flight(
                   InterleavedPlace{mesh, meshes, static_cast<std::size_t>(spec.stages_per_mesh)},
                   micros)
             : most_in_flight(spec.schedule, {mesh, meshes}, micros);
}

TEST(MakeOrders, names_each_micro_batch_once_a_kind_and_stage_and_ascending) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    const std::vector<Order> orders = made(with_delay(spec, 1), meshes, micros);
    ASSERT_EQ(orders.size(), meshes);
    for (std::size_t mesh = 0; mesh < meshes; ++mesh) {
      std::map<std::size_t, std::array<std::int64_t, 4>> next;  // by stage and kind
      for (const Task& task : orders[mesh]) {
        EXPECT_EQ(task.stage % meshes, mesh);
        auto& of_stage = next[task.stage];
        EXPECT_EQ(task.micro, of_stage[static_cast<std::size_t>(task.kind)]++);
        for (std::size_t kind = 1; kind < 3; ++kind) EXPECT_LE(of_stage[kind], of_stage[kind - 1]);
      }
      EXPECT_EQ(static_cast<std::int64_t>(next.size()), spec.stages_per_mesh);
      for (const auto& [stage, counts] : next)
        EXPECT_EQ(counts, (std::array{micros, micros, micros, std::int64_t{1}})) << stage;
      const auto updates = std::ranges::find(orders[mesh], TaskKind::update, &Task::kind);
      EXPECT_EQ(orders[mesh].end() - updates, spec.stages_per_mesh);
    }
  });
}

TEST(MakeOrders, keeps_as_many_in_flight_as_the_closed_forms_say) {
  for_all_pipelines([](const ScheduleSpec& spec, std::size_t meshes, std::int64_t micros) {
    const std::int64_t forwards = micros * spec.stages_per_mesh;
    for (std::int64_t delay = 0; delay <= 3; ++delay) {
      const std::vector<Order> orders = made(with_delay(spec, delay), meshes, micros);
      for (std::size_t mesh = 0; mesh < meshes; ++mesh) {
        const std::int64_t in_flight = closed_form(spec, mesh, meshes, micros);
        EXPECT_EQ(counted(orders[mesh], TaskKind::backward), in_flight);
        EXPECT_EQ(counted(orders[mesh], TaskKind::weight_backward),
                  most_live(in_flight, delay, forwards));
      }
    }
  });
}

/// The paper's bound: eager-1F1B keeps at most as many micro-batches more than 1F1B as there are
/// other stages.
TEST(MakeOrders, of_eager_1f1b_keep_less_than_one_micro_batch_a_stage_more) {
  for (std::size_t stages = 1; stages <= 8; ++stages)
    for (std::int64_t micros = 1; micros <= 16; ++micros) {
      std::int64_t most = 0;
      for (std::size_t stage = 0; stage < stages; ++stage) {
        const std::int64_t more =
            most_in_flight(Schedule::eager_one_f_one_b, {stage, stages}, micros) -
            most_in_flight(Schedule::one_f_one_b, {stage, stages}, micros);
        EXPECT_LE(more, static_cast<std::int64_t>(stages - stage) - 1);
        most = std::max(most, more);
      }
      EXPECT_LE(most, static_cast<std::int64_t>(stages) - 1);
      if (micros >= 2 * static_cast<std::int64_t>(stages) - 1) {
        EXPECT_EQ(most, static_cast<std::int64_t>(stages) - 1);
      }
    }
}

TEST(Caps, take_micro_batches_from_the_warm_up_of_eager_1f1b_down_to_that_of_1f1b) {
  using Counts = std::vector<std::int64_t>;
  const auto in_flight = [](std::vector<std::optional<std::int64_t>> caps, WeightDelay delay = {}) {
    return in_flight_by_mesh({Schedule::eager_one_f_one_b, 1, delay, std::move(caps)}, 4, 16);
  };
  EXPECT_EQ(std::get<Counts>(in_flight({})), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(std::get<Counts>(in_flight({9, 9, 9, 9})), (Counts{7, 5, 3, 1}));
  EXPECT_EQ(std::get<Counts>(in_flight({4, 4, 4, 4})), (Counts{4, 4, 3, 1}));
  // No mesh is further ahead than the one before, which would have to feed it.
  EXPECT_EQ(std::get<Counts>(in_flight({4, std::nullopt, 2, 1})), (Counts{4, 4, 2, 1}));
  EXPECT_EQ(std::get<Refusal>(in_flight({4, 2, 4, 4})), Refusal(TooManyInFlight{1, 3, 2}));
  // Delayed parts keep their activations.
  const WeightDelay two{WeightDelay::Kind::fixed, 2};
  EXPECT_EQ(std::get<Counts>(in_flight({7, 7, 7, 7}, two)), (Counts{5, 5, 3, 1}));
  EXPECT_EQ(std::get<Refusal>(in_flight({5, 7, 7, 7}, two)), Refusal(TooManyInFlight{0, 6, 5}));
}

TEST(Caps, are_kept_and_end_in_no_circle_whatever_they_are) {
  for (std::size_t meshes = 1; meshes <= 6; ++meshes)
    for (const std::int64_t micros : {1, 3, 8, 16})
      for (std::int64_t tight = 0; tight <= 8; ++tight)
        for (std::size_t where = 0; where < meshes; ++where)
          for (std::int64_t delay = 0; delay <= 2; ++delay) {
            ScheduleSpec spec = with_delay({.schedule = Schedule::eager_one_f_one_b}, delay);
            spec.caps.assign(meshes, std::nullopt);
            spec.caps[where] = tight;
            const auto orders = make_orders(spec, meshes, micros);
            const std::int64_t needed = std::min(
                micros, most_in_flight(Schedule::one_f_one_b, {where, meshes}, micros) + delay);
            if (tight < needed) {
              EXPECT_EQ(std::get<Refusal>(orders), Refusal(TooManyInFlight{where, needed, tight}));
              continue;
            }
            const auto& made = std::get<std::vector<Order>>(orders);
            EXPECT_LE(counted(made[where], TaskKind::weight_backward), tight);
            const auto steps = steps_in_order(made, chain(meshes));
            EXPECT_TRUE(std::holds_alternative<std::vector<Step>>(steps));
          }
}

TEST(Caps, refuse_what_other_schedules_cannot_do_with_less) {
  const auto orders = make_orders({.schedule = Schedule::gpipe, .caps = {3, 3}}, 2, 4);
  EXPECT_EQ(std::get<Refusal>(orders), Refusal(TooManyInFlight{0, 4, 3}));
  EXPECT_EQ(to_text(std::get<Refusal>(orders)),
            "mesh 0 holds 3 micro-batches in flight at once and the schedule needs 4; smaller "
            "micro-batches, more recomputation or a lower delay of the weights' part may fit");
  EXPECT_EQ(std::get<Refusal>(make_orders(
                {.schedule = Schedule::interleaved, .stages_per_mesh = 2, .caps = {4, 4}}, 2, 4)),
            Refusal(TooManyInFlight{0, 5, 4}));
}

TEST(Refusals, say_what_would_work) {
  const ScheduleSpec interleaved{.schedule = Schedule::interleaved, .stages_per_mesh = 2};
  EXPECT_EQ(to_text(std::get<Refusal>(make_orders(interleaved, 4, 6))),
            "an interleaved pipeline of 4 meshes cannot take 6 micro-batches, which it does in "
            "groups of 4; 4 and 8 can");
  EXPECT_EQ(to_text(std::get<Refusal>(make_orders(interleaved, 4, 3))),
            "an interleaved pipeline of 4 meshes cannot take 3 micro-batches, which it does in "
            "groups of 4; 4 can");
  EXPECT_EQ(to_text(std::get<Refusal>(make_orders({.stages_per_mesh = 2}, 4, 6))),
            "the schedule 1f1b gives a mesh one stage, not 2; the schedule interleaved can");
}

}  // namespace
}  // namespace fourfold::pipeline
