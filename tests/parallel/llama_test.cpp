// A Llama on grids and in pipelines trains as on one rank, with as many groups as heads or with
// one.
#include <gtest/gtest.h>

#include <map>
#include <utility>

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

/// Groups that four ranks divide, or do not, of heads that they do; documents begin anywhere.
RunSetup llama_of(std::int64_t groups, std::int64_t heads_of_group) {
  RunSetup setup;
  setup.llama = {
      .num_layers = 2,
      .num_attention_heads = groups * heads_of_group,
      .num_key_value_heads = groups,
      .head_dim = 8,
      .hidden_size = 32,
      .ffn_hidden_size = 48,
      .max_position_embeddings = 6,
      .vocab_size = 37,
      .mlp_bias = groups == 3,
      .head_norm = groups != 1,
      .tied_head = groups != 2,
      .rope = {
          .kind = model::RopeKind::llama3, .theta = 100, .factor = 4, .original_positions = 6}};
  setup.plan = {.global_batch_size = 32, .micro_batch_size = 16, .seq_length = 6};
  setup.plan.compute = DType::f64;
  setup.masks_documents = setup.restarts_positions = true;
  return setup;
}

const std::vector<std::pair<std::int64_t, std::int64_t>> heads_in_groups = {
    {1, 4}, {2, 3}, {3, 2}, {8, 1}};

TEST(Llama, trains_on_grids_as_on_one_rank) {
  for (const auto& [groups, heads] : heads_in_groups) {
    const RunSetup serial_setup = llama_of(groups, heads);
    const test::Tensors weights = test::rough_weights(serial_setup);
    const auto serial = test::run_job(serial_setup, GridRun::compile_job(serial_setup), weights);
    test::Worst worst;
    int grids = 0;
    for (const plan::Grid& grid : test::grids_of_two()) {
      const std::int64_t ranks = plan::num_ranks(grid);
      if (ranks == 1 || ranks > (is_long_run() ? 16 : 8)) continue;
      SCOPED_TRACE(
          format("{} groups, x {} y {} z {} data {}", groups, grid.x, grid.y, grid.z, grid.data));
      RunSetup setup = serial_setup;
      test::set_grid(setup, grid);
      setup.plan.shard_states = grid.data > 1 && grid.x > 1;
      program::Job job = GridRun::compile_job(setup);
      EXPECT_TRUE(verify::verify(job).empty());
      compare(test::run_job(setup, std::move(job), weights), serial, 1e-10, worst);
      ++grids;
    }
    EXPECT_GE(grids, 25);
    test::print(worst, format("{} groups on {} grids", groups, grids));
  }
}

TEST(Llama, trains_in_stages_as_on_one_rank) {
  int pipelines = 0;
  test::Worst worst;
  for (const auto& [groups, heads] : heads_in_groups) {
    RunSetup setup = llama_of(groups, heads);
    setup.masks_documents = setup.restarts_positions = false;
    setup.llama->num_layers = 4;
    setup.plan.global_batch_size = 24;
    setup.plan.micro_batch_size = 4;
    std::map<std::int64_t, test::TrainingOutcome> serial;  // by samples at once
    const test::Tensors weights = test::rough_weights(setup);
    for (const std::vector<Pipeline>* list : {&two_stages, &four_stages})
      for (const Pipeline& pipeline : *list)
        for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
          if (schedule == Schedule::gpipe && groups != 3) continue;
          SCOPED_TRACE(format("{} groups, {}", groups, name_of(pipeline, schedule)));
          const std::int64_t samples = samples_of(setup, pipeline.grids[0]);
          if (!serial.contains(samples))
            serial.emplace(samples, run_serial(setup, pipeline.grids[0], weights));
          compare(
              test::run_job(setup, compile_stages(setup, pipeline, schedule), weights, in_moments),
              serial.at(samples), 1e-10, worst);
          ++pipelines;
        }
  }
  EXPECT_GE(pipelines, 20);
  test::print(worst, format("{} pipelines", pipelines));
}

}  // namespace
}  // namespace fourfold
