// A Llama on grids and in pipelines trains as on one rank, with as many groups as heads or with
// one.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/format.h"
#include "support/covering_array.h"
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
      .attention_bias = groups == 2   ? model::AttentionBias::qkv
                        : groups == 3 ? model::AttentionBias::all
                                      : model::AttentionBias::none,
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

/// Grids of two to eight ranks for each number of groups, by its place: with FOURFOLD_LONG all,
/// else so that every size of an axis meets every number of groups and every size of each other
/// axis.
std::vector<std::vector<plan::Grid>> grids_by_groups() {
  std::vector<std::vector<plan::Grid>> grids(heads_in_groups.size());
  const auto is_tried = [](std::int64_t ranks) { return ranks > 1 && ranks <= 8; };
  if (is_long_run()) {
    for (auto& list : grids) {
      list = test::grids_of_two();
      std::erase_if(list, [&](const plan::Grid& grid) { return !is_tried(plan::num_ranks(grid)); });
    }
    return grids;
  }
  const auto grid_of = [](const test::Assignment& row) {
    const auto size = [&](std::size_t factor) {
      return std::int64_t{1} << (row[factor] == test::open_value ? 0 : row[factor]);
    };
    return plan::Grid{.x = size(1), .y = size(2), .z = size(3), .data = size(4)};
  };
  const test::Factors factors = {
      {static_cast<int>(heads_in_groups.size()), 4, 4, 4, 4}, [&](const test::Assignment& row) {
        const bool is_open = std::ranges::find(row, test::open_value) != row.end();
        const std::int64_t ranks = plan::num_ranks(grid_of(row));
        return is_open ? ranks <= 8 : is_tried(ranks);
      }};
  for (const test::Assignment& row : test::CoveringArrayMaker(factors, 2, 1).make().rows)
    grids[static_cast<std::size_t>(row[0])].push_back(grid_of(row));
  return grids;
}

TEST(Llama, trains_on_grids_as_on_one_rank) {
  const std::vector<std::vector<plan::Grid>> grids = grids_by_groups();
  const std::int64_t steps = is_long_run() ? test::num_steps : 2;
  std::size_t count = 0;
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const auto [groups, heads] = heads_in_groups[i];
    const RunSetup serial_setup = llama_of(groups, heads);
    const test::Tensors weights = test::rough_weights(serial_setup);
    const auto run = [&](const RunSetup& setup, program::Job job) {
      return test::run_job(setup, std::move(job), weights, test::Gradients::in_the_step, steps);
    };
    const auto serial = run(serial_setup, GridRun::compile_job(serial_setup));
    test::Worst worst;
    for (const plan::Grid& grid : grids[i]) {
      SCOPED_TRACE(
          format("{} groups, x {} y {} z {} data {}", groups, grid.x, grid.y, grid.z, grid.data));
      RunSetup setup = serial_setup;
      test::set_grid(setup, grid);
      setup.plan.shard_states = grid.data > 1 && grid.x > 1;
      program::Job job = GridRun::compile_job(setup);
      EXPECT_TRUE(verify::verify(job).empty());
      compare(run(setup, std::move(job)), serial, 1e-10, worst);
    }
    EXPECT_GE(grids[i].size(), 4U);
    count += grids[i].size();
    test::print(worst, format("{} groups on {} grids", groups, grids[i].size()));
  }
  EXPECT_GE(count, is_long_run() ? 100U : 16U);
}

/// Documents are masked where there are as many groups as heads, and where there is one.
TEST(Llama, trains_in_stages_as_on_one_rank) {
  std::size_t pipelines = 0, number = 0;
  test::Worst worst;
  for (const auto& [groups, heads] : heads_in_groups) {
    RunSetup setup = llama_of(groups, heads);
    setup.masks_documents = setup.restarts_positions = heads == 1 || groups == 1;
    setup.llama->num_layers = 4;
    setup.plan.global_batch_size = 24;
    setup.plan.micro_batch_size = 4;
    std::map<std::int64_t, test::TrainingOutcome> serial;  // by samples at once
    const test::Tensors weights = test::rough_weights(setup);
    for (const std::vector<Pipeline>* list : {&two_stages, &four_stages})
      for (const Pipeline& pipeline : *list)
        for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::gpipe}) {
          if (schedule == Schedule::gpipe && groups != 3) continue;
          if (++number % 4 != 1 && !is_long_run()) continue;
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
  EXPECT_GE(pipelines, is_long_run() ? 20U : 5U);
  test::print(worst, format("{} pipelines", pipelines));
}

}  // namespace
}  // namespace fourfold
