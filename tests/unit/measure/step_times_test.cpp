// Times of kernel calls in the step of a small GPT, on rank threads.
#include "measure/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "comm/threads.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/model.h"
#include "op/table.h"
#include "plan/plan.h"

namespace fourfold::measure {
namespace {

program::Job tiny_job(std::int64_t samples) {
  const model::GptSpec gpt{.num_layers = 2,
                           .num_attention_heads = 4,
                           .hidden_size = 64,
                           .ffn_hidden_size = 256,
                           .max_position_embeddings = 32,
                           .vocab_size = 40};
  plan::PlanSpec spec{
      .global_batch_size = 2 * samples, .micro_batch_size = samples, .seq_length = 32};
  const auto graphs = model::build(gpt, {samples, spec.seq_length, spec.global_batch_size}, {});
  const auto planned = plan::plan_model(graphs, spec);
  const auto& [model, plan] = std::get<plan::PlannedModel>(planned);
  return compile::compile(model, plan, kernels::cpu::target(1));
}

double total_s(const std::vector<CallTime>& times) {
  double total = 0;
  for (const CallTime& one : times) total += one.seconds;
  return total;
}

TEST(StepTimes, every_computation_of_each_step_has_a_time_that_all_ranks_agree_on) {
  const program::Job large = tiny_job(8), small = tiny_job(1);
  const std::vector<TimedStep> steps = {{&large.classes[0], 40}, {&small.classes[0], 40}};
  std::size_t computations = 0;
  for (const TimedStep& step : steps)
    computations += static_cast<std::size_t>(std::ranges::count_if(
        step.bundle->at(op::ProgramKind::train).instructions, [](const auto& instruction) {
          return std::holds_alternative<program::Compute>(instruction.what);
        }));
  comm::ThreadJob job(2);
  std::vector<std::vector<CallTime>> seen(2);
  job.run([&](comm::World& world) {
    seen[world.rank().index()] = time_steps(world, steps, {.threads = 1, .seconds = 0.02});
  });
  ASSERT_EQ(seen[0].size(), computations);
  ASSERT_EQ(seen[1].size(), computations);
  double products_s = 0, large_s = 0;
  for (std::size_t i = 0; i < computations; ++i) {
    EXPECT_GT(seen[0][i].seconds, 0);
    EXPECT_EQ(seen[0][i].seconds, seen[1][i].seconds);
    const kernels::Problem& problem = seen[0][i].call.problem;
    if (op::work_class(problem.op) == op::WorkClass::product) products_s += seen[0][i].seconds;
    if (i < computations / 2) large_s += seen[0][i].seconds;
  }
  EXPECT_GT(products_s, 0.05 * total_s(seen[0]));
  EXPECT_GT(large_s, total_s(seen[0]) / 2) << "eight times the samples";
}

}  // namespace
}  // namespace fourfold::measure
