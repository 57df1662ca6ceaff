#include "pipeline/order.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/format.h"

namespace fourfold::pipeline {
namespace {

/// "F0 F1 B0 U".
std::string words(const Order& order) {
  std::string text;
  for (const Task& task : order) {
    text += text.empty() ? "" : " ";
    switch (task.kind) {
      case TaskKind::forward:
        text += format("F{}", task.micro);
        break;
      case TaskKind::backward:
        text += format("B{}", task.micro);
        break;
      case TaskKind::weight_backward:
        text += format("W{}", task.micro);
        break;
      case TaskKind::update:
        text += "U";
        break;
    }
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
}

/// For all pipelines of up to 8 stages and 16 micro-batches: each task once, each micro-batch of a
/// kind after the one before, backward after forward; and as many in flight as the closed form
/// says.
TEST(Order, keeps_its_promises_for_every_pipeline) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (std::size_t stages = 1; stages <= 8; ++stages)
      for (std::size_t stage = 0; stage < stages; ++stage)
        for (std::int64_t micros = 1; micros <= 16; ++micros) {
          SCOPED_TRACE(format("{} stage {} of {}, {} micro-batches", to_string(schedule), stage,
                              stages, micros));
          const Order order = order_of(schedule, {stage, stages}, micros);
          std::map<TaskKind, std::int64_t> next;
          std::int64_t in_flight = 0, most = 0;
          for (const Task& task : order) {
            EXPECT_EQ(task.stage, stage);
            EXPECT_EQ(task.micro, next[task.kind]++);
            if (task.kind == TaskKind::forward) most = std::max(most, ++in_flight);
            if (task.kind == TaskKind::backward) {
              EXPECT_LT(task.micro, next[TaskKind::forward]);
              --in_flight;
            }
          }
          EXPECT_EQ(next[TaskKind::forward], micros);
          EXPECT_EQ(next[TaskKind::backward], micros);
          EXPECT_EQ(order.back().kind, TaskKind::update);
          EXPECT_EQ(next[TaskKind::update], 1);
          EXPECT_EQ(most, most_in_flight(schedule, {stage, stages}, micros));
          EXPECT_EQ(slots_between(order, TaskKind::forward, TaskKind::backward), most);
        }
}

/// Micro-batches carried out of step: the pipeline never stands still, whatever runs first.
TEST(Order, of_all_stages_together_comes_to_its_end) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    for (std::size_t stages = 1; stages <= 8; ++stages)
      for (std::int64_t micros = 1; micros <= 16; ++micros) {
        std::vector<Order> orders;
        for (std::size_t stage = 0; stage < stages; ++stage)
          orders.push_back(order_of(schedule, {stage, stages}, micros));
        std::vector<std::size_t> at(stages, 0);
        std::vector<std::map<TaskKind, std::int64_t>> done(stages);
        const auto may_run = [&](const Task& task) {
          const std::size_t s = task.stage;
          if (task.kind == TaskKind::forward)
            return s == 0 || done[s - 1][TaskKind::forward] > task.micro;
          if (task.kind == TaskKind::backward)
            return s + 1 == stages || done[s + 1][TaskKind::backward] > task.micro;
          return true;
        };
        bool moved = true;
        while (moved) {
          moved = false;
          for (std::size_t s = 0; s < stages; ++s)
            if (at[s] < orders[s].size() && may_run(orders[s][at[s]])) {
              ++done[s][orders[s][at[s]].kind];
              ++at[s];
              moved = true;
            }
        }
        for (std::size_t s = 0; s < stages; ++s) EXPECT_EQ(at[s], orders[s].size());
      }
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
}

}  // namespace
}  // namespace fourfold::pipeline
