// The verifier on compiled programs of all ranks: every seeded fault is named, also in the text of
// a job alone, and what is named does harm when it is run anyway.
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

std::vector<verify::Fault> verify(std::vector<program::Bundle> bundles) {
  return verify::verify(program::job_of(std::move(bundles)));
}

/// Jobs of different kinds to seed faults in.
std::vector<RunSetup> varied_jobs() {
  std::vector<RunSetup> jobs;
  RunSetup axonn = test::first_model();
  axonn.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  test::set_grid(axonn, {.x = 2, .y = 2, .z = 2, .data = 1});
  jobs.push_back(axonn);
  RunSetup zero = test::second_model();
  zero.plan.shard_states = true;
  test::set_grid(zero, {.x = 2, .y = 2, .z = 1, .data = 2});
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

/// The finding that is missing where a job is sent as text: empty where the fault is named, nothing
/// where the text cannot have the fault.
std::optional<std::string> uncaught_in_text(const std::vector<program::Bundle>& bundles,
                                            const verify::Mutation& mutation,
                                            const verify::Seeded& seeded) {
  std::string text;
  try {
    text = program::to_text(program::folded(bundles));
  } catch (const InternalError&) {
    return std::nullopt;
  }
  try {
    const program::Job read = program::parse_job(text, "sent.txt");
    return verify::uncaught(mutation, seeded, verify::verify(read));
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);  // found while reading
    return "";
  }
}

/// Every third one in the text of its job too; all with FOURFOLD_LONG.
TEST(Verified, seeded_faults_are_caught_and_named) {
  const std::size_t step = is_long_run() ? 1 : 3;
  std::map<std::string, int> caught;
  std::set<std::string> kinds_in_texts;
  int total = 0, in_texts = 0;
  std::size_t turn = 0;
  std::mt19937 random(7);
  for (const RunSetup& setup : varied_jobs()) {
    const std::vector<program::Bundle> sound = all_ranks(setup);
    for (const verify::Mutation& mutation : verify::mutations())
      for (int round = 0; round < (is_long_run() ? 2 : 1); ++round) {
        std::vector<program::Bundle> bundles = sound;
        const auto seeded = mutation.apply(bundles, random);
        if (!seeded) continue;
        SCOPED_TRACE(format("{}: {}: {}", test::name_of(setup.plan), mutation.kind, seeded->what));
        const bool is_in_text = turn++ % step == 0;
        if (const auto missing =
                is_in_text ? uncaught_in_text(bundles, mutation, *seeded) : std::nullopt) {
          EXPECT_EQ(*missing, "");
          kinds_in_texts.insert(mutation.kind);
          ++in_texts;
        } else {
          EXPECT_EQ(verify::uncaught(mutation, *seeded, verify(std::move(bundles))), "");
        }
        ++caught[mutation.kind];
        ++total;
      }
  }
  std::printf("%d faults of %zu kinds in compiled programs, %d of %zu kinds in texts\n", total,
              caught.size(), in_texts, kinds_in_texts.size());
  EXPECT_GE(total, 60);
  EXPECT_GE(caught.size(), 20U);
  EXPECT_GT(caught["a wait for memory dropped"], 0);
  EXPECT_GE(in_texts, is_long_run() ? 100 : 50);
  EXPECT_GE(kinds_in_texts.size(), 30U);
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
