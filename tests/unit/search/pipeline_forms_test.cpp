// The time of a pipeline by closed form, beside the clock that runs its tasks.
#include "search/pipeline_forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <variant>

#include "pipeline/make_orders.h"

namespace fourfold::search {
namespace {

using pipeline::Costs;
using pipeline::Schedule;

constexpr Schedule all_schedules[] = {Schedule::gpipe, Schedule::one_f_one_b,
                                      Schedule::eager_one_f_one_b};

double by_clock(const Costs& costs, Schedule schedule, std::int64_t micros) {
  const auto orders = std::get<std::vector<pipeline::Order>>(
      pipeline::make_orders({.schedule = schedule}, costs.stages.size(), micros));
  return std::get<pipeline::Timing>(pipeline::time_orders(orders, costs)).makespan_s;
}

Costs equal_stages(std::size_t stages, double message_s) {
  Costs costs;
  costs.stages.assign(stages, {1, 1.25, 0.75});
  costs.edges = pipeline::chain(stages);
  costs.of_edges.assign(costs.edges.size(), {message_s, message_s});
  return costs;
}

TEST(PipelineForms, equal_stages_with_free_messages_take_what_the_clock_says) {
  for (const Schedule schedule : all_schedules)
    for (const std::size_t stages : {1U, 2U, 4U, 8U})
      for (const std::int64_t micros : {8, 16, 33}) {
        const Costs costs = equal_stages(stages, 0);
        EXPECT_NEAR(pipeline_seconds(costs, schedule, micros), by_clock(costs, schedule, micros),
                    1e-9)
            << to_string(schedule) << " " << stages << " stages, " << micros;
      }
}

TEST(PipelineForms, a_1f1b_pays_for_messages_that_an_eager_one_hides) {
  const Costs costs = equal_stages(4, 0.5);
  EXPECT_DOUBLE_EQ(period_seconds(costs, Schedule::eager_one_f_one_b), 3);
  // Four stages and three messages there and back, for four micro-batches.
  EXPECT_DOUBLE_EQ(period_seconds(costs, Schedule::one_f_one_b), (4 * 3 + 3 * 1.0) / 4);
}

TEST(PipelineForms, the_period_is_that_of_the_clock_whatever_stages_and_messages_take) {
  std::mt19937 random(7);
  const auto between = [&](double least, double most) {
    return std::uniform_real_distribution<>(least, most)(random);
  };
  for (int i = 0; i < 200; ++i) {
    Costs costs = equal_stages(2 + random() % 5, 0);
    for (pipeline::StageCost& stage : costs.stages) stage.forward_s = between(0.8, 1.2);
    for (pipeline::EdgeCost& edge : costs.of_edges) edge = {between(0, 2), between(0, 2)};
    const Schedule schedule = all_schedules[random() % 3];
    constexpr std::int64_t micros = 200, more = 400;
    const double period = (by_clock(costs, schedule, more) - by_clock(costs, schedule, micros)) /
                          static_cast<double>(more - micros);
    EXPECT_NEAR(period_seconds(costs, schedule), period, 0.01 * period)
        << to_string(schedule) << ", case " << i;
    const double all = by_clock(costs, schedule, micros);
    EXPECT_NEAR(pipeline_seconds(costs, schedule, micros), all, 0.03 * all)
        << to_string(schedule) << ", case " << i;
  }
}

TEST(PipelineForms, a_message_past_a_stage_counts_where_it_is_the_slowest) {
  Costs costs = equal_stages(3, 0);
  costs.edges.push_back({0, 2});
  costs.of_edges.push_back({5, 1});
  EXPECT_DOUBLE_EQ(period_seconds(costs, Schedule::one_f_one_b), 5);
}

}  // namespace
}  // namespace fourfold::search
