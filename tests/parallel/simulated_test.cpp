// Compiled jobs run and simulated: both do the same things in the same order on each stream, and
// keep every order that the programs demand. So they do in the other tests here, whose runs are
// compared likewise; simulators that are wrong on purpose are told apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "program/meetings.h"
#include "simulate/simulate.h"
#include "support/grids.h"
#include "support/outcome.h"
#include "support/simulated_order.h"

namespace fourfold {
namespace {

using program::Meetings;
using program::Stop;
using test::GridRun;
using test::RunSetup;
using test::TimedRank;

/// Runs one step of training on rank threads, which is compared with its simulation.
void run_step(const RunSetup& setup, GridRun& grid) {
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    rank.executor.run(op::ProgramKind::train, test::SmallRun::block(0, 1e-3, 1), &feeder);
  });
}

void expect_same_order(const RunSetup& setup, const program::Job& job) {
  GridRun grid(setup, job);
  run_step(setup, grid);
  const machine::Cluster cluster = test::slow_cluster();
  const auto all =
      simulate::simulate(job, op::ProgramKind::train, cluster, simulate::Follow::all_ranks);
  const auto few = simulate::simulate(job, op::ProgramKind::train, cluster);
  EXPECT_NEAR(few.step_s, all.step_s, 1e-9 * all.step_s);
}

TEST(SimulatedRuns, of_models_on_grids_have_the_order_of_real_ones) {
  std::size_t count = 0;
  const auto expect = [&](RunSetup setup, const plan::Grid& grid) {
    test::set_grid(setup, grid);
    SCOPED_TRACE(test::name_of(setup.plan));
    expect_same_order(setup, GridRun::compile_job(setup));
    ++count;
  };
  for (const plan::Grid& grid :
       {plan::Grid{.data = 1}, plan::Grid{.x = 2, .y = 2, .z = 2, .data = 1},
        plan::Grid{.x = 4, .data = 2}, plan::Grid{.z = 3, .data = 2},
        plan::Grid{.x = 3, .y = 2, .data = 1}})
    expect(test::first_model(), grid);
  RunSetup states = test::second_model();
  states.plan.shard_states = true;
  expect(states, {.x = 2, .data = 4});
  expect(test::picture_model(), {.x = 2, .y = 2, .z = 2, .data = 1});
  expect(test::diffusion_model(), {.x = 2, .y = 2, .data = 2});
  std::printf("%zu grids\n", count);
}

/// Six blocks, three micro-batches of eight samples.
RunSetup pipelined_model() {
  RunSetup setup;
  setup.gpt = {.num_layers = 6,
               .num_attention_heads = 8,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 6,
               .vocab_size = 40};
  setup.plan = {.global_batch_size = 24, .micro_batch_size = 4, .seq_length = 6};
  return setup;
}

program::Job pipeline_of(const RunSetup& setup, const std::vector<plan::Grid>& grids,
                         const std::vector<std::int64_t>& layers, pipeline::Schedule schedule) {
  const plan::Grid& first = grids[0];
  const auto graphs = model::build(setup.model(),
                                   {setup.plan.micro_batch_size * first.z * first.data,
                                    setup.plan.seq_length, setup.plan.global_batch_size},
                                   setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = {.stages = static_cast<std::int64_t>(grids.size()),
                   .schedule = schedule,
                   .layers = layers,
                   .grids = grids};
  const auto staged = plan::plan_model(graphs, spec);
  const auto& [model, plan] = std::get<plan::PlannedModel>(staged);
  return compile::compile(model, plan, kernels::cpu::target(1));
}

TEST(SimulatedRuns, of_pipelines_have_the_order_of_real_ones) {
  const RunSetup setup = pipelined_model();
  struct Pipeline {
    std::vector<plan::Grid> grids;
    std::vector<std::int64_t> layers;
  };
  for (const Pipeline& pipeline :
       {Pipeline{{{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {2, 4}},
        Pipeline{{{.x = 2, .data = 1}, {.data = 2}, {.y = 2, .data = 1}, {.z = 2, .data = 1}},
                 {1, 1, 1, 3}}})
    for (const auto schedule : {pipeline::Schedule::gpipe, pipeline::Schedule::one_f_one_b,
                                pipeline::Schedule::eager_one_f_one_b})
      expect_same_order(setup, pipeline_of(setup, pipeline.grids, pipeline.layers, schedule));
}

// --- simulators that are wrong on purpose

/// A job, a step of it as it ran, and who meets whom in it.
struct Ran {
  std::string name;
  program::Job job;
  std::size_t place = 0;  // of the program in each bundle
  std::vector<TimedRank> measured;
  Meetings meetings;
};

Ran ran(const std::string& name, const RunSetup& setup, const program::Job& job) {
  GridRun grid(setup, job);
  run_step(setup, grid);
  Ran result{name, job, 0, {}, {}};
  while (job.classes[0].programs[result.place].kind != op::ProgramKind::train) ++result.place;
  result.measured = test::timed(job, result.place, grid.recorded());
  result.meetings = program::meetings(job, result.place);
  return result;
}

/// A grid, and a pipeline whose stages lie differently.
std::vector<Ran> runs() {
  RunSetup grid = test::first_model();
  grid.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  test::set_grid(grid, {.x = 4, .data = 2});
  const RunSetup staged = pipelined_model();
  return {ran("grid", grid, GridRun::compile_job(grid)),
          ran("pipeline", staged,
              pipeline_of(staged, {{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {2, 4},
                          pipeline::Schedule::one_f_one_b))};
}

simulate::Simulation simulated(const Ran& run, const Meetings& meetings,
                               const machine::Cluster& cluster) {
  return simulate::simulate(run.job, run.place, meetings, cluster, simulate::Follow::all_ranks);
}

/// What the test of every run says of such a simulation; `cluster` is the one that it should be on.
std::vector<std::string> said_of(const Ran& run, const simulate::Simulation& simulation,
                                 const machine::Cluster& cluster) {
  return test::contradictions(run.measured, test::timed(run.job, run.place, simulation), cluster);
}

std::size_t count_waits(const Meetings& meetings) {
  std::size_t count = 0;
  for (const program::Stops& stops : meetings.classes)
    for (const std::vector<Stop>& stream : stops.streams)
      count += static_cast<std::size_t>(std::ranges::count(stream, Stop::Kind::wait, &Stop::kind));
  return count;
}

/// Some thirty waits are left out, each alone. Such a simulation is caught, or has the times of
/// the sound one: nothing was left to wait for.
TEST(SimulatedRuns, are_told_from_those_of_a_simulator_that_drops_a_wait) {
  const machine::Cluster cluster = test::slow_cluster();
  for (const Ran& run : runs()) {
    SCOPED_TRACE(run.name);
    const std::size_t every = count_waits(run.meetings) / 30;
    const simulate::Simulation sound = simulated(run, run.meetings, cluster);
    std::size_t waits = 0, left_out = 0, caught = 0;
    for (std::size_t of = 0; of < run.meetings.classes.size(); ++of)
      for (std::size_t stream = 0; stream < run.meetings.classes[of].streams.size(); ++stream)
        for (std::size_t stop = 0; stop < run.meetings.classes[of].streams[stream].size(); ++stop) {
          if (run.meetings.classes[of].streams[stream][stop].kind != Stop::Kind::wait) continue;
          if (waits++ % every != 0) continue;
          Meetings mutant = run.meetings;
          std::vector<Stop>& list = mutant.classes[of].streams[stream];
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(stop));
          const simulate::Simulation wrong = simulated(run, mutant, cluster);
          const bool is_same =
              std::ranges::equal(wrong.ranks, sound.ranks, {}, &simulate::SimulatedRank::times,
                                 &simulate::SimulatedRank::times);
          EXPECT_EQ(said_of(run, wrong, cluster).empty(), is_same) << "wait " << waits - 1;
          caught += is_same ? 0 : 1;
          ++left_out;
        }
    std::printf("%s: %zu of %zu waits left out, %zu caught, the others change nothing\n",
                run.name.c_str(), left_out, waits, caught);
    EXPECT_GE(caught, 10U);
  }
}

TEST(SimulatedRuns, are_told_from_those_of_a_simulator_whose_links_cost_nothing) {
  machine::Cluster cluster = test::slow_cluster();
  cluster.device.instruction_s = 0;
  for (machine::Level& level : cluster.levels) level.latency_s = 0;
  for (const Ran& run : runs()) {
    SCOPED_TRACE(run.name);
    EXPECT_EQ(said_of(run, simulated(run, run.meetings, cluster), cluster),
              std::vector<std::string>());
    for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
      machine::Cluster mutant = cluster;
      mutant.levels[level].link_bytes_per_s = mutant.levels[level].port_bytes_per_s = 1e18;
      EXPECT_NE(said_of(run, simulated(run, run.meetings, mutant), cluster),
                std::vector<std::string>())
          << mutant.levels[level].name;
    }
  }
}

/// Half of the members of each group do not wait for the other half. Hosts of three devices, so
/// that halves lie differently, and one is later than the other.
TEST(SimulatedRuns, are_told_from_those_of_a_simulator_whose_collectives_start_early) {
  const machine::Cluster cluster = test::slow_cluster(3);
  const Ran run = std::move(runs().front());
  EXPECT_EQ(said_of(run, simulated(run, run.meetings, cluster), cluster),
            std::vector<std::string>());
  Meetings mutant = run.meetings;
  std::size_t halved = 0;
  for (std::size_t rank = 0; rank < mutant.ranks.size(); ++rank)
    for (std::uint32_t& group : mutant.ranks[rank].groups) {
      const program::Communicators::Entry& entry = run.meetings.communicators[group];
      const std::size_t half = entry.members.size() / 2;
      if (half < 2) continue;
      const std::size_t first = entry.members.position(Rank(rank)).value() / half * half;
      group = mutant.communicators.number({"half " + entry.name, entry.members.range(first, half)});
      ++halved;
    }
  EXPECT_GT(halved, 0U);
  EXPECT_NE(said_of(run, simulated(run, mutant, cluster), cluster), std::vector<std::string>());
}

// --- what a schedule hides

/// A simulated step of two stages of a rank each, on hosts of their own.
double pipeline_step_s(pipeline::Schedule schedule, bool overlaps, double link_bytes_per_s) {
  RunSetup setup;
  setup.gpt = {.num_layers = 8,
               .num_attention_heads = 4,
               .hidden_size = 64,
               .ffn_hidden_size = 256,
               .max_position_embeddings = 32,
               .vocab_size = 40};
  setup.plan = {.global_batch_size = 16, .micro_batch_size = 1, .seq_length = 32};
  setup.plan.overlap.send_recv = overlaps;
  const auto graphs = model::build(setup.model(), {1, 32, 16}, setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  const plan::Grid one{.data = 1};
  spec.pipeline = {.stages = 2, .schedule = schedule, .layers = {4, 4}, .grids = {one, one}};
  const auto staged = plan::plan_model(graphs, spec);
  const auto& [model, plan] = std::get<plan::PlannedModel>(staged);
  machine::Cluster cluster = test::slow_cluster();
  cluster.levels[0].units = 1;
  cluster.levels[1].link_bytes_per_s = cluster.levels[1].port_bytes_per_s = link_bytes_per_s;
  return simulate::simulate(compile::compile(model, plan, kernels::cpu::target(1)),
                            op::ProgramKind::train, cluster)
      .step_s;
}

/// Zhuang et al. 2023 (arXiv:2211.05322), section 4: where the transfers of a micro-batch take as
/// long as a third of its tasks, 1F1B waits for them and eager-1F1B does not.
TEST(SimulatedRuns, of_eager_stages_hide_transfers_that_others_wait_for) {
  using enum pipeline::Schedule;
  const double free = pipeline_step_s(one_f_one_b, true, 1e15);
  // 16 micro-batches on two stages take the time of 17; each sends 32 x 64 f32 values both ways.
  const double link = 2 * 32 * 64 * 4 / (free / 17 / 3);
  const double apart = pipeline_step_s(one_f_one_b, false, link),
               beside = pipeline_step_s(one_f_one_b, true, link),
               eager = pipeline_step_s(eager_one_f_one_b, true, link);
  std::printf(
      "free %.3g s; 1F1B, nothing beside computation %.3f times, beside it %.3f, eager %.3f\n",
      free, apart / free, beside / free, eager / free);
  EXPECT_GT(apart, 1.1 * free);
  EXPECT_GT(beside, 1.1 * free);
  // A transfer more at the begin and at the end of the step, and ranks slower beside transfers.
  EXPECT_LT(eager, 1.08 * free);
}

}  // namespace
}  // namespace fourfold
