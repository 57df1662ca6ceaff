// Lion on grids and in pipelines trains as on one rank, and keeps half of what AdamW keeps.
#include <gtest/gtest.h>

#include "base/format.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "support/stages.h"

namespace fourfold {
namespace {

using pipeline::Schedule;
using test::GridRun;
using test::RunSetup;
using namespace test::stages;

/// Without biases: the gradient of a key's is zero but for rounding, of which Lion takes the sign.
RunSetup unbiased_gpt() {
  RunSetup setup;
  setup.gpt = {.num_layers = 4,
               .num_attention_heads = 4,
               .hidden_size = 32,
               .ffn_hidden_size = 48,
               .max_position_embeddings = 4,
               .vocab_size = 37,
               .dropout = 0.1,
               .bias = false};
  setup.plan = {.global_batch_size = 32, .micro_batch_size = 16, .seq_length = 4};
  setup.plan.compute = DType::f64;
  setup.optimizer = graph::OptimizerSpec::of(op::Lion{}, 1);
  return setup;
}

TEST(Lion, trains_on_grids_as_on_one_rank) {
  const RunSetup serial_setup = unbiased_gpt();
  const test::Tensors weights = test::rough_weights(serial_setup);
  const auto serial = test::run_job(serial_setup, GridRun::compile_job(serial_setup), weights);
  test::Worst worst;
  int grids = 0;
  for (const plan::Grid& grid : test::grids_of_two()) {
    const std::int64_t ranks = plan::num_ranks(grid);
    if (ranks == 1 || ranks > (is_long_run() ? 8 : 4)) continue;
    SCOPED_TRACE(format("x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data));
    RunSetup setup = serial_setup;
    test::set_grid(setup, grid);
    setup.plan.shard_states = grid.data > 1 && grids % 2 == 0;
    program::Job job = GridRun::compile_job(setup);
    EXPECT_TRUE(verify::verify(job).empty());
    compare(test::run_job(setup, std::move(job), weights), serial, 1e-10, worst);
    ++grids;
  }
  test::print(worst, format("{} grids", grids));
}

TEST(Lion, trains_in_stages_as_on_one_rank) {
  RunSetup setup = unbiased_gpt();
  setup.plan.global_batch_size = 24;
  setup.plan.micro_batch_size = 4;
  const test::Tensors weights = test::rough_weights(setup);
  test::Worst worst;
  int pipelines = 0;
  for (const std::vector<Pipeline>* list : {&two_stages, &four_stages})
    for (const Pipeline& pipeline : *list)
      for (const Schedule schedule : of_one_stage_a_mesh) {
        if (!is_long_run() && (&pipeline != &list->front() || schedule == Schedule::gpipe))
          continue;
        SCOPED_TRACE(name_of(pipeline, schedule));
        RunSetup serial = setup;
        serial.plan.micro_batch_size = samples_of(setup, pipeline.grids[0]);
        const auto seen = test::Gradients::nowhere;
        compare(test::run_job(setup, compile_stages(setup, pipeline, schedule), weights, seen),
                test::run_job(serial, GridRun::compile_job(serial), weights, seen), 1e-10, worst);
        ++pipelines;
      }
  test::print(worst, format("{} pipelines", pipelines));
}

/// Bytes that rank 0 keeps for the optimizer, and of all that a checkpoint holds.
std::pair<std::int64_t, std::int64_t> kept_bytes(const RunSetup& setup) {
  const program::Job job = GridRun::compile_job(setup);
  const program::Bundle& bundle = job.classes.front();
  std::int64_t moments = 0, all = 0;
  for (const program::Buffer& buffer : bundle.at(op::ProgramKind::train).buffers) {
    if (program::is_learned(buffer.role)) all += buffer.size_bytes;
    if (buffer.role == program::BufferRole::moment) moments += buffer.size_bytes;
  }
  return {moments, all};
}

TEST(Lion, keeps_half_of_the_state_of_adamw) {
  for (const bool shards : {false, true}) {
    RunSetup setup = unbiased_gpt();
    setup.plan.grid.data = 2;
    setup.plan.micro_batch_size = 8;
    setup.plan.shard_states = shards;
    const auto [lion, all_of_lion] = kept_bytes(setup);
    setup.optimizer = {};
    const auto [adamw, all_of_adamw] = kept_bytes(setup);
    EXPECT_GT(lion, 0);
    EXPECT_EQ(2 * lion, adamw);
    EXPECT_EQ(all_of_adamw - all_of_lion, lion);
  }
}

}  // namespace
}  // namespace fourfold
