// Steps whose middle repeats itself, against the same with more micro-batches.
#include "simulate/predict_more.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/format.h"
#include "unit/simulate/small_job.h"

namespace fourfold::simulate {
namespace {

using program::Builder;
using program::Job;
using program::TaskKind;

constexpr std::int64_t forward_n = 1000, backward_n = 1200, update_n = 1500;

/// What the tasks of a micro-batch compute beside what all of them do.
using More = void (*)(Builder&, std::int64_t micro);

void add_task(Builder& b, TaskKind kind, std::int64_t micro, More more) {
  b.task(kind, micro);
  const bool is_forward = kind == TaskKind::forward;
  add_product(b, format("{}{}", is_forward ? "f" : "b", micro),
              is_forward ? forward_n : backward_n);
  if (more != nullptr && is_forward) more(b, micro);
}

/// One rank that begins `ahead` forward tasks before it ends the first micro-batch.
Job turns(std::int64_t micros, std::int64_t ahead, More more = nullptr) {
  return job_on({{"x", 1}}, [&](Builder& b) {
    for (std::int64_t micro = 0; micro < micros + ahead; ++micro) {
      if (micro < micros) add_task(b, TaskKind::forward, micro, more);
      if (micro >= ahead) add_task(b, TaskKind::backward, micro - ahead, more);
    }
    b.task(TaskKind::update);
    add_product(b, "update", update_n);
  });
}

double seconds_of(const Job& job) {
  return simulate(job, op::ProgramKind::train, two_levels(1, 1)).step_s;
}

void expect_extended(const Job& few, const Job& many, std::int64_t micros) {
  const Simulation simulation = simulate(few, op::ProgramKind::train, two_levels(1, 1));
  const auto extended = predict_more(few, simulation, micros);
  ASSERT_TRUE(extended.has_value());
  const Prediction whole = predict(many, simulate(many, op::ProgramKind::train, two_levels(1, 1)));
  EXPECT_NEAR(extended->step_s, whole.step_s, 1e-9 * whole.step_s);
  EXPECT_NEAR(extended->compute_s, whole.compute_s, 1e-6 * whole.compute_s);
  EXPECT_NEAR(extended->flops, whole.flops, 1e-9 * whole.flops);
  EXPECT_EQ(extended->costs.at(0).what, whole.costs.at(0).what);
  EXPECT_NEAR(extended->costs[0].seconds, whole.costs[0].seconds, 1e-6 * whole.step_s);
}

TEST(PredictMore, each_micro_batch_more_takes_one_period_more) {
  const Job few = turns(8, 2), many = turns(50, 2);
  const auto cycle = find_cycle(few, simulate(few, op::ProgramKind::train, two_levels(1, 1)));
  ASSERT_TRUE(cycle.has_value());
  EXPECT_EQ(cycle->micros, 1);
  EXPECT_NEAR(cycle->period_s, product_s(forward_n) + product_s(backward_n), 1e-12);
  expect_extended(few, many, 50);
}

TEST(PredictMore, of_all_forward_tasks_before_the_backward_ones_each_pass_has_its_period) {
  expect_extended(turns(6, 6), turns(40, 40), 40);
}

TEST(PredictMore, micro_batches_of_unlike_length_are_a_cycle_of_several) {
  const More more = [](Builder& b, std::int64_t micro) {
    if (micro % 3 == 1) add_product(b, format("more{}", micro), forward_n);
  };
  const Job few = turns(15, 1, more);
  const auto cycle = find_cycle(few, simulate(few, op::ProgramKind::train, two_levels(1, 1)));
  ASSERT_TRUE(cycle.has_value());
  EXPECT_EQ(cycle->micros, 3);
  EXPECT_NEAR(seconds_of(few) + 30 * cycle->period_s, seconds_of(turns(45, 1, more)), 1e-9);
}

TEST(PredictMore, what_has_not_settled_is_not_extended) {
  const More longer = [](Builder& b, std::int64_t micro) {
    add_product(b, format("more{}", micro), 100 * (micro + 1));
  };
  const Job job = turns(12, 1, longer);
  EXPECT_FALSE(
      predict_more(job, simulate(job, op::ProgramKind::train, two_levels(1, 1)), 50).has_value());
  const Job short_one = turns(3, 2);
  EXPECT_FALSE(
      predict_more(short_one, simulate(short_one, op::ProgramKind::train, two_levels(1, 1)), 50)
          .has_value());
}

}  // namespace
}  // namespace fourfold::simulate
