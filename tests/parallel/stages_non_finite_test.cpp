// A NaN that any instruction of any rank of a pipeline writes is found and named by all ranks, in
// whatever order the stages work.
#include <gtest/gtest.h>

#include <random>

#include "run/find_non_finite.h"
#include "support/long_run.h"
#include "support/planted_nan.h"
#include "support/unet_stages.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;
using test::SmallRun;
using test::stages::Pipeline;
using test::stages::Schedule;

/// What one rank writes as a NaN.
struct Planted {
  std::size_t rank = 0, instruction = 0;
};

/// Two steps, the second with the fault. None where it changes nothing; else what all ranks say.
std::optional<std::string> plant(const RunSetup& setup, const program::Job& job,
                                 const Planted& planted) {
  GridRun grid(setup, job);
  std::mutex mutex;
  std::set<std::string> told;
  std::int64_t applied = 0;
  grid.run(
      [&](GridRun::RankRun& rank) {
        rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
        auto feeder = random_batch(setup);
        EXPECT_EQ(
            rank.executor.run(op::ProgramKind::train, SmallRun::block(0, 1e-3, 1), &feeder).applied,
            1);
        if (rank.rank == planted.rank)
          rank.backend->inject({op::ProgramKind::train, planted.instruction, 0, 0});
        const op::StepBlock block = SmallRun::block(1, 1e-3, 1);
        const auto before = GridRun::digests(rank);
        const auto result = rank.executor.run(op::ProgramKind::train, block, &feeder);
        if (result.applied == 0) {
          EXPECT_EQ(GridRun::digests(rank), before);
        }
        const auto text = run::first_of_all(
            run::find_non_finite(rank.executor, op::ProgramKind::train, block, &feeder),
            rank.world);
        const std::lock_guard lock(mutex);
        applied += result.applied;
        if (text) told.insert(*text);
      },
      "an instruction of one rank has a fault");
  EXPECT_TRUE(applied == 0 || applied == std::ssize(job.ranks)) << applied;
  if (applied != 0) return std::nullopt;
  EXPECT_EQ(told.size(), 1U) << "all ranks say one thing";
  return told.empty() ? "" : *told.begin();
}

class StagesNonFinite : public testing::Test {
 protected:
  /// Plants a NaN at random places of the job.
  void expect_named(const RunSetup& setup, const Pipeline& pipeline, Schedule schedule,
                    std::optional<std::int64_t> weight_delay = std::nullopt) {
    SCOPED_TRACE(name_of(pipeline, schedule));
    const program::Job job = compile_stages(setup, pipeline, schedule, weight_delay);
    for (int planted = 0; planted < (is_long_run() ? 6 : 1); ++planted) {
      const std::size_t rank = random_() % job.ranks.size();
      const auto places =
          test::places_for_a_nan(program::bundle_of(job, Rank(rank)).at(op::ProgramKind::train));
      const std::size_t instruction = places[random_() % places.size()];
      SCOPED_TRACE(format("rank {}, instruction {}", rank, instruction));
      const auto text = plant(setup, job, {rank, instruction});
      ++num_tried_;
      if (!text) {
        // Nothing takes it up: the gradient of a token whose row of the table another rank has.
        ++num_harmless_;
        continue;
      }
      EXPECT_TRUE(text->starts_with(format("rank {}: ", rank))) << *text;
      EXPECT_NE(text->find(format("(instruction {}) wrote NaN into ", instruction)),
                std::string::npos)
          << *text;
    }
  }

  void TearDown() override { EXPECT_LE(num_harmless_, num_tried_ / 8) << "of " << num_tried_; }

  std::mt19937 random_{1};
  int num_tried_ = 0, num_harmless_ = 0;
};

TEST_F(StagesNonFinite, in_any_order_of_tasks_is_named_with_its_rank) {
  const RunSetup setup = test::stages::gpt();
  std::vector<Pipeline> pipelines = test::stages::two_stages;
  if (is_long_run())
    pipelines.insert(pipelines.end(), test::stages::four_stages.begin(),
                     test::stages::four_stages.end());
  for (const Pipeline& pipeline : pipelines)
    for (const Schedule schedule : test::stages::of_one_stage_a_mesh)
      expect_named(setup, pipeline, schedule);
}

TEST_F(StagesNonFinite, with_several_stages_on_a_mesh_is_named_with_its_rank) {
  for (const Pipeline& pipeline : test::stages::interleaved)
    expect_named(test::stages::gpt(), pipeline, Schedule::interleaved);
}

TEST_F(StagesNonFinite, with_weight_gradients_beside_or_later_is_named_with_its_rank) {
  RunSetup beside = test::stages::gpt();
  beside.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  RunSetup plain = test::stages::gpt();
  plain.plan.overlap.send_recv = false;
  for (const Pipeline& pipeline : test::stages::two_stages) {
    expect_named(beside, pipeline, Schedule::one_f_one_b);
    expect_named(beside, pipeline, Schedule::eager_one_f_one_b, 1);
    expect_named(plain, pipeline, Schedule::gpipe, 2);
  }
}

TEST_F(StagesNonFinite, of_what_skips_stages_is_named_with_its_rank) {
  const std::int64_t layers = test::stages::num_unet_layers();
  for (std::uint64_t seed = 1; seed <= (is_long_run() ? 30U : 2U); ++seed) {
    const auto [its, pipeline, delay] = test::stages::draw_unet(seed, layers);
    RunSetup setup =
        test::stages::unet_of_micros(its.is_conditional, its.micros, pipeline.grids[0]);
    setup.plan.overlap.send_recv = its.is_beside;
    expect_named(setup, pipeline, its.schedule, delay);
  }
}

TEST_F(StagesNonFinite, of_pictures_is_named_with_its_rank) {
  for (const Pipeline& pipeline : {Pipeline{{{.data = 1}, {.data = 1}}, {1}},
                                   Pipeline{{{.x = 2, .data = 1}, {.data = 2}}, {1}}})
    for (const Schedule schedule : test::stages::of_one_stage_a_mesh)
      expect_named(test::stages::vgg(), pipeline, schedule);
}

}  // namespace
}  // namespace fourfold
