#include "pipeline/order.h"

#include <gtest/gtest.h>

#include <string>

#include "base/format.h"

namespace fourfold::pipeline {
namespace {

/// "F0 F1 B0 U", or "F2.0" of stage 2 where the order is that of several stages.
std::string words(const Order& order) {
  const bool several = order.front().stage != order.back().stage;
  std::string text;
  for (const Task& task : order) {
    text += text.empty() ? "" : " ";
    text += letter_of(task.kind);
    if (several) text += format("{}", task.stage);
    if (task.kind != TaskKind::update) text += format("{}{}", several ? "." : "", task.micro);
  }
  return text;
}

TEST(Order, of_one_stage_does_forward_and_backward_in_turn) {
  EXPECT_EQ(words(order_of(Schedule::one_f_one_b, {}, 3)), "F0 B0 F1 B1 F2 B2 U");
}

TEST(Order, of_gpipe_does_all_forward_tasks_first) {
  EXPECT_EQ(words(order_of(Schedule::gpipe, {1, 2}, 3)), "F0 F1 F2 B0 B1 B2 U");
}

TEST(Order, of_1f1b_is_ahead_by_as_many_as_stages_follow) {
  EXPECT_EQ(words(order_of(Schedule::one_f_one_b, {0, 3}, 4)), "F0 F1 F2 B0 F3 B1 B2 B3 U");
  EXPECT_EQ(words(order_of(Schedule::one_f_one_b, {1, 3}, 4)), "F0 F1 B0 F2 B1 F3 B2 B3 U");
  EXPECT_EQ(words(order_of(Schedule::one_f_one_b, {2, 3}, 4)), "F0 B0 F1 B1 F2 B2 F3 B3 U");
  EXPECT_EQ(words(order_of(Schedule::one_f_one_b, {0, 4}, 2)), "F0 F1 B0 B1 U");
}

TEST(Order, may_give_weight_gradients_tasks_of_their_own) {
  const Order order = order_of(Schedule::one_f_one_b, {0, 2}, 3);
  EXPECT_EQ(words(with_weight_tasks(order, 0)), "F0 F1 B0 W0 F2 B1 W1 B2 W2 U");
  EXPECT_EQ(words(with_weight_tasks(order, 1)), "F0 F1 B0 F2 B1 W0 B2 W1 W2 U");
  EXPECT_EQ(words(with_weight_tasks(order, 9)), "F0 F1 B0 F2 B1 B2 W0 W1 W2 U");
  EXPECT_EQ(words(with_weight_tasks(interleaved_order({1, 2, 2}, 2), 1)),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 W3.0 B1.0 W3.1 B1.1 W1.0 W1.1 U1 U3");
}

TEST(Order, of_eager_1f1b_is_ahead_by_twice_as_many_as_stages_follow) {
  const Schedule eager = Schedule::eager_one_f_one_b;
  EXPECT_EQ(words(order_of(eager, {0, 3}, 6)), "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5 U");
  EXPECT_EQ(words(order_of(eager, {1, 3}, 6)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5 U");
  EXPECT_EQ(words(order_of(eager, {2, 3}, 6)), words(order_of(Schedule::one_f_one_b, {2, 3}, 6)));
  EXPECT_EQ(words(order_of(eager, {0, 3}, 2)), "F0 F1 B0 B1 U");
}

/// Narayanan et al. 2021, figure 4: four devices with two stages each, eight micro-batches.
TEST(Order, of_interleaved_stages_takes_micro_batches_in_groups_of_as_many_as_meshes) {
  EXPECT_EQ(words(interleaved_order({0, 2, 2}, 4)),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3 "
            "U0 U2");
  EXPECT_EQ(words(interleaved_order({1, 2, 2}, 4)),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3 "
            "U1 U3");
  EXPECT_EQ(words(interleaved_order({0, 4, 2}, 8)).substr(0, 84),
            "F0.0 F0.1 F0.2 F0.3 F4.0 F4.1 F4.2 F4.3 F0.4 F0.5 F0.6 B4.0 F0.7 B4.1 F4.4 B4.2 F4.5");
}

TEST(Order, of_interleaved_meshes_with_one_stage_is_that_of_1f1b) {
  for (std::size_t meshes = 1; meshes <= 8; ++meshes)
    for (std::size_t mesh = 0; mesh < meshes; ++mesh)
      for (std::int64_t micros = 1; micros <= 16; ++micros)
        EXPECT_EQ(interleaved_order({mesh, meshes, 1}, micros),
                  order_of(Schedule::one_f_one_b, {mesh, meshes}, micros));
}

TEST(Schedules, have_names_that_are_read_back) {
  for (const Schedule schedule :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved, Schedule::eager_one_f_one_b})
    EXPECT_EQ(schedule_from(to_string(schedule)), schedule);
  EXPECT_EQ(to_string(Schedule::eager_one_f_one_b), "eager-1f1b");
  EXPECT_EQ(to_string(Schedule::interleaved), "interleaved");
  EXPECT_EQ(schedule_from("1F1B"), std::nullopt);
}

TEST(Slots, last_as_long_as_the_value) {
  const Order plain = order_of(Schedule::one_f_one_b, {}, 4);
  EXPECT_EQ(slots_between(plain, TaskKind::forward, TaskKind::forward), 1);
  EXPECT_EQ(slots_between(plain, TaskKind::forward, TaskKind::backward), 1);
  // One task longer reaches the next forward task.
  EXPECT_EQ(slots_between(plain, TaskKind::forward, TaskKind::backward, 1), 2);
  const Order ahead = order_of(Schedule::one_f_one_b, {0, 3}, 4);
  EXPECT_EQ(slots_between(ahead, TaskKind::forward, TaskKind::forward), 1);
  EXPECT_EQ(slots_between(ahead, TaskKind::forward, TaskKind::forward, 1), 2);
  EXPECT_EQ(slots_between(ahead, TaskKind::backward, TaskKind::backward, 1), 2);
  EXPECT_EQ(slots_between(ahead, TaskKind::forward, TaskKind::backward), 3);
  const Order delayed = with_weight_tasks(order_of(Schedule::one_f_one_b, {}, 4), 1);
  EXPECT_EQ(slots_between(delayed, TaskKind::backward, TaskKind::weight_backward), 2);
  // "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 ..."
  const Order several = interleaved_order({0, 2, 2}, 4);
  EXPECT_EQ(slots_between(several, 0, TaskKind::forward, TaskKind::backward), 4);
  EXPECT_EQ(slots_between(several, 2, TaskKind::forward, TaskKind::backward), 2);
  EXPECT_EQ(slots_between(several, 2, TaskKind::forward, TaskKind::backward, 2), 2);
  EXPECT_EQ(slots_between(several, 2, TaskKind::forward, TaskKind::backward, 3), 3);
}

}  // namespace
}  // namespace fourfold::pipeline
