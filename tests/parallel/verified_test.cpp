// The verifier on compiled programs of all ranks: no false alarm on any grid, every seeded fault
// named, and what it names does harm when it is run anyway.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "base/format.h"
#include "comm/monitor.h"
#include "program/jobs.h"
#include "program/text.h"
#include "support/grid_run.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "verify/mutations.h"
#include "verify/verify_job.h"

namespace fourfold::verified_test {
namespace {

using test::GridRun;
using test::RunSetup;
using test::SmallRun;

std::vector<program::Bundle> all_ranks(const RunSetup& setup) {
  const GridRun grid(setup);
  std::vector<program::Bundle> bundles;
  for (std::size_t rank = 0; rank < grid.num_ranks(); ++rank)
    bundles.push_back(grid.bundle_of(rank));
  return bundles;
}

std::vector<verify::Fault> verify(const std::vector<program::Bundle>& bundles) {
  return verify::verify(program::job_of(bundles));
}

void expect_sound(const RunSetup& setup) {
  std::size_t shown = 0;
  for (const program::Job& job : {GridRun(setup).job(), program::job_of(all_ranks(setup))})
    for (const verify::Fault& fault : verify::verify(job))
      if (shown++ < 3)
        ADD_FAILURE() << test::name_of(setup.plan) << ": " << fault.rule << ": " << fault.message;
}

TEST(Verified, programs_of_all_grids_have_no_faults) {
  std::size_t count = 0;
  for (const plan::Grid& grid : test::all_grids()) {
    RunSetup setup = test::first_model();
    test::set_grid(setup, grid);
    setup.plan.checkpointing.layers = count % 3 == 0 ? 0 : 1;
    setup.plan.checkpointing.keeps_products = count % 3 == 2;
    if (count % 4 < 2) setup.plan.overlap.weight_gradients = plan::WeightGradients::beside;
    setup.masks_documents = count % 2 == 1;
    setup.restarts_positions = count % 4 == 1;
    expect_sound(setup);
    ++count;
  }
  for (const plan::Grid& grid : test::second_grids()) {
    RunSetup setup = test::second_model();
    test::set_grid(setup, grid);
    setup.plan.shard_states = count % 2 == 0;
    setup.masks_documents = setup.restarts_positions = count % 4 < 2;
    expect_sound(setup);
    ++count;
  }
  for (const bool sequence : {false, true}) {
    RunSetup setup = test::first_model();
    setup.plan.strategy = plan::Strategy::megatron;
    setup.plan.shard_sequence = sequence;
    setup.masks_documents = setup.restarts_positions = sequence;
    test::set_grid(setup, {.x = 4, .data = 4});
    expect_sound(setup);
    ++count;
  }
  std::printf("%zu grids: no false alarm\n", count);
}

/// Every fifth grid each time; all with FOURFOLD_LONG.
TEST(Verified, programs_of_a_unet_have_no_faults) {
  const std::size_t step = is_long_run() ? 1 : 3;
  const std::vector<plan::Grid> grids = test::grids_of_two();
  std::size_t count = 0;
  for (std::size_t i = 0; i < grids.size(); i += step) {
    RunSetup setup = test::diffusion_model();
    test::set_grid(setup, grids[i]);
    setup.plan.shard_states = i % 2 == 0;
    setup.plan.checkpointing.layers = i % 3 == 0 ? 1 : 0;
    if (count % 2 == 0) setup.plan.overlap.weight_gradients = plan::WeightGradients::beside;
    expect_sound(setup);
    ++count;
  }
  std::printf("%zu grids of a U-Net: no false alarm\n", count);
}

TEST(Verified, programs_in_bf16_have_no_faults) {
  std::size_t count = 0;
  for (const plan::Grid& grid : test::second_grids()) {
    RunSetup setup = test::second_model();
    setup.plan.compute = DType::bf16;
    setup.reference_kernels = true;
    test::set_grid(setup, grid);
    setup.gpt.tied_head = count % 2 == 1;
    setup.plan.shard_states = count % 3 == 0;
    setup.plan.checkpointing.layers = count % 3 == 1 ? 1 : 0;
    setup.plan.rounds_gradients = count % 4 < 2;
    if (count % 5 < 3) setup.plan.overlap.weight_gradients = plan::WeightGradients::beside;
    expect_sound(setup);
    ++count;
  }
  std::printf("%zu grids in bf16: no false alarm\n", count);
}

/// Jobs of different kinds to seed faults in.
std::vector<RunSetup> varied_jobs() {
  std::vector<RunSetup> jobs;
  RunSetup axonn = test::first_model();
  axonn.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  test::set_grid(axonn, {.x = 2, .y = 2, .z = 2, .data = 2});
  jobs.push_back(axonn);
  RunSetup zero = test::second_model();
  zero.plan.shard_states = true;
  test::set_grid(zero, {.x = 2, .y = 4, .z = 1, .data = 2});
  jobs.push_back(zero);
  RunSetup fsdp = test::first_model();
  fsdp.plan.strategy = plan::Strategy::fsdp;
  test::set_grid(fsdp, {.z = 4, .data = 1});
  jobs.push_back(fsdp);
  RunSetup mixed = test::first_model();
  mixed.plan.compute = DType::bf16;
  mixed.reference_kernels = true;
  mixed.plan.rounds_gradients = true;
  mixed.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  test::set_grid(mixed, {.x = 2, .y = 1, .z = 2, .data = 2});
  jobs.push_back(mixed);
  RunSetup chunks = test::first_model();
  chunks.plan.chunks = 2;
  test::set_grid(chunks, {.x = 2, .y = 2, .z = 2, .data = 1});
  jobs.push_back(chunks);
  return jobs;
}

TEST(Verified, seeded_faults_are_caught_and_named) {
  std::map<std::string, int> caught;
  int total = 0;
  std::mt19937 random(7);
  for (const RunSetup& setup : varied_jobs()) {
    const std::vector<program::Bundle> sound = all_ranks(setup);
    for (const verify::Mutation& mutation : verify::mutations())
      for (int round = 0; round < (is_long_run() ? 2 : 1); ++round) {
        std::vector<program::Bundle> bundles = sound;
        const auto seeded = mutation.apply(bundles, random);
        if (!seeded) continue;
        const std::string missing = verify::uncaught(mutation, *seeded, verify(bundles));
        EXPECT_EQ(missing, "") << test::name_of(setup.plan) << ": " << mutation.kind << ": "
                               << seeded->what;
        ++caught[mutation.kind];
        ++total;
      }
  }
  std::printf("%d faults of %zu kinds in compiled programs\n", total, caught.size());
  EXPECT_GE(total, 60);
  EXPECT_GE(caught.size(), 20U);
  EXPECT_GT(caught["a wait for memory dropped"], 0);
}

/// Each kind in every sixth job each time; in all jobs with FOURFOLD_LONG.
TEST(Verified, faults_are_found_in_the_text_of_a_job_alone) {
  const std::size_t step = is_long_run() ? 1 : 6;
  std::size_t turn = 0;
  std::set<std::string> kinds;
  int total = 0;
  std::mt19937 random(11);
  for (const RunSetup& setup : varied_jobs()) {
    const std::vector<program::Bundle> sound = all_ranks(setup);
    const program::Job job = GridRun(setup).job();
    for (const verify::Mutation& mutation : verify::mutations()) {
      std::vector<program::Bundle> bundles = sound;
      const auto seeded = mutation.apply(bundles, random);
      if (!seeded || turn++ % step != 0) continue;
      std::string text;
      try {
        text = program::to_text(program::folded(job, bundles));
      } catch (const InternalError&) {
        continue;  // what cannot be printed cannot be sent
      }
      try {
        const program::Job read = program::parse_job(text, "sent.txt");
        const std::string missing = verify::uncaught(mutation, *seeded, verify::verify(read));
        EXPECT_EQ(missing, "") << test::name_of(setup.plan) << ": " << mutation.kind << ": "
                               << seeded->what;
      } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_config);  // found while reading
      }
      kinds.insert(mutation.kind);
      ++total;
    }
  }
  std::printf("%d faults of %zu kinds in the texts of jobs\n", total, kinds.size());
  EXPECT_GE(total, is_long_run() ? 100 : 50);
  EXPECT_GE(kinds.size(), 30U);
}

/// How a run of possibly broken programs ends: the losses of three steps, or why there are none. It
/// is not compared with a simulation, which requires programs without faults.
struct Ending {
  std::vector<double> losses;
  std::string fault;
};

Ending run_anyway(const RunSetup& setup, const std::vector<program::Bundle>& bundles) {
  Ending ending;
  comm::ThreadJob job(bundles.size());
  comm::MonitorOptions options;
  options.watchdog_s = 1;
  options.say = [](std::string_view) {};
  const comm::ThreadMonitor monitor(job, options);
  try {
    job.run([&](comm::World& world) {
      run::CpuBackend backend({.threads = 1, .world = &world});
      run::Executor executor(bundles[world.rank().index()], backend);
      executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
      auto feeder = test::random_batch(setup);
      for (std::int64_t step = 0; step < 3; ++step) {
        const auto result =
            executor.run(op::ProgramKind::train, SmallRun::block(step, 1e-2, 1), &feeder);
        if (world.rank().index() == 0)
          ending.losses.push_back(result.loss_sum / static_cast<double>(result.valid_count));
      }
    });
  } catch (const std::exception& error) {
    ending.fault = error.what();
  }
  return ending;
}

TEST(Verified, faults_that_are_run_anyway_hang_or_corrupt) {
  RunSetup setup = test::first_model();
  test::set_grid(setup, {.x = 2, .y = 2, .z = 1, .data = 1});
  const std::vector<program::Bundle> sound = all_ranks(setup);
  const Ending good = run_anyway(setup, sound);
  ASSERT_EQ(good.fault, "");
  ASSERT_EQ(good.losses.size(), 3U);
  const std::set<std::string> sample = {"a collective dropped on one rank",
                                        "a collective dropped on all ranks",
                                        "the reduction of a weight gradient missing",
                                        "an update missing",
                                        "another rank's block copied",
                                        "the reduction of a result missing"};
  std::mt19937 random(11);
  int run = 0, harmful = 0, hanging = 0;
  for (const verify::Mutation& mutation : verify::mutations()) {
    if (!sample.contains(mutation.kind)) continue;
    for (int round = 0; round < 2; ++round) {
      std::vector<program::Bundle> bundles;
      std::optional<verify::Seeded> seeded;
      // Only faults of the training step are run.
      for (int attempt = 0; attempt < 50; ++attempt) {
        bundles = sound;
        seeded = mutation.apply(bundles, random);
        if (!seeded || bundles[0].programs[seeded->program].kind == op::ProgramKind::train) break;
      }
      if (!seeded || bundles[0].programs[seeded->program].kind != op::ProgramKind::train) continue;
      const Ending ending = run_anyway(setup, bundles);
      ++run;
      double change = 0;
      for (std::size_t i = 0; i < ending.losses.size(); ++i)
        change = std::max(change, std::abs(ending.losses[i] - good.losses[i]));
      const bool harms = !ending.fault.empty() || !(change <= 1e-12);
      harmful += harms ? 1 : 0;
      hanging += ending.fault.empty() ? 0 : 1;
      std::printf("%-45s %s\n", mutation.kind.c_str(),
                  !ending.fault.empty() ? ending.fault.substr(0, 70).c_str()
                                        : format("loss off by {:.1e}", change).c_str());
    }
  }
  EXPECT_GE(run, 8);
  EXPECT_GE(hanging, 1);
  // Not each one shows in three losses of a small model: a reduction may be one of equal terms.
  EXPECT_GE(2 * harmful, run);
}

}  // namespace
}  // namespace fourfold::verified_test
