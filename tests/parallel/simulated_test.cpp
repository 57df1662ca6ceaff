// Compiled jobs run and simulated: both do the same things in the same order on each stream, and
// keep every order that the programs demand.
#include <gtest/gtest.h>

#include <cstdio>
#include <mutex>

#include "simulate/simulate.h"
#include "support/grids.h"
#include "support/order_of_events.h"
#include "support/outcome.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;
using test::TimedRank;

/// Four hosts of four devices, slow enough that much is exposed and much is hidden.
machine::Cluster small_cluster() {
  machine::Cluster cluster;
  cluster.name = "small";
  cluster.device.name = "device";
  cluster.device.memory_bytes_per_s = 1e10;
  cluster.device.rates = {{DType::f64, 1e10, {}}, {DType::f32, 2e10, {}}};
  cluster.device.instruction_s = 1e-6;
  cluster.device.slowdown_beside_communication = 1.2;
  machine::Level host, network;
  host.name = "host";
  host.units = 4;
  host.latency_s = 1e-6;
  host.link_bytes_per_s = 1e10;
  host.port_bytes_per_s = 2e10;
  network = host;
  network.name = "network";
  network.latency_s = 1e-5;
  network.link_bytes_per_s = network.port_bytes_per_s = 1e9;
  cluster.levels = {host, network};
  return cluster;
}

/// The first training step of all ranks, as threads, as they record it.
std::vector<TimedRank> run(const RunSetup& setup, const program::Job& job) {
  GridRun grid(setup, job);
  std::vector<TimedRank> ranks(grid.num_ranks());
  std::mutex mutex;
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run("init", test::SmallRun::block(0, 0, 1));
    const program::Program& train = rank.bundle.at("train");
    trace::Recorder recorder("train", train.instructions.size(), 0, 1);
    rank.executor.set_recorder(&recorder);
    auto feeder = test::random_batch(setup);
    rank.executor.run("train", test::SmallRun::block(0, 1e-3, 1), &feeder);
    rank.executor.set_recorder(nullptr);
    const std::lock_guard lock(mutex);
    TimedRank& timed = ranks[rank.rank];
    timed.program = train;
    for (const trace::Interval& when : recorder.runs()[0].instructions)
      timed.times.push_back(
          {1e-9 * static_cast<double>(when.begin_ns), 1e-9 * static_cast<double>(when.end_ns)});
  });
  return ranks;
}

std::vector<TimedRank> simulated(const program::Job& job) {
  const simulate::Simulation simulation =
      simulate::simulate(job, "train", small_cluster(), simulate::Follow::all_ranks);
  std::vector<TimedRank> ranks;
  for (const simulate::SimulatedRank& rank : simulation.ranks) {
    TimedRank& timed = ranks.emplace_back();
    timed.program = program::bundle_of(job, Rank(rank.rank)).at("train");
    for (const simulate::Times& times : rank.times)
      timed.times.push_back({times.begin_s, times.end_s});
  }
  return ranks;
}

/// Nanoseconds were counted from the start of the machine: as seconds they are rounded.
constexpr double clock_slack_s = 1e-9;

void expect_same_order(const RunSetup& setup, const program::Job& job) {
  const std::vector<TimedRank> measured = run(setup, job), predicted = simulated(job);
  EXPECT_EQ(test::faults_of_order(measured, clock_slack_s), std::vector<std::string>());
  EXPECT_EQ(test::faults_of_order(predicted, 1e-12), std::vector<std::string>());
  ASSERT_EQ(measured.size(), predicted.size());
  for (std::size_t rank = 0; rank < measured.size(); ++rank)
    EXPECT_EQ(test::order_of_streams(predicted[rank]), test::order_of_streams(measured[rank]))
        << "rank " << rank;
  const auto few = simulate::simulate(job, "train", small_cluster());
  double step_s = 0;
  for (const TimedRank& rank : predicted)
    for (const test::When& when : rank.times) step_s = std::max(step_s, when.end_s);
  EXPECT_NEAR(few.step_s, step_s, 1e-9 * step_s);
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

TEST(SimulatedRuns, of_pipelines_have_the_order_of_real_ones) {
  RunSetup setup;
  setup.gpt = {.num_layers = 6,
               .num_attention_heads = 8,
               .hidden_size = 32,
               .ffn_hidden_size = 64,
               .max_position_embeddings = 6,
               .vocab_size = 40};
  setup.plan = {.global_batch_size = 24, .micro_batch_size = 4, .seq_length = 6};
  struct Pipeline {
    std::vector<plan::Grid> grids;
    std::vector<std::int64_t> layers;
  };
  for (const Pipeline& pipeline :
       {Pipeline{{{.x = 2, .data = 1}, {.y = 2, .data = 2}}, {2, 4}},
        Pipeline{{{.x = 2, .data = 1}, {.data = 2}, {.y = 2, .data = 1}, {.z = 2, .data = 1}},
                 {1, 1, 1, 3}}})
    for (const auto schedule : {pipeline::Schedule::gpipe, pipeline::Schedule::one_f_one_b,
                                pipeline::Schedule::eager_one_f_one_b}) {
      const plan::Grid& first = pipeline.grids[0];
      const auto graphs = model::build(setup.model(),
                                       {setup.plan.micro_batch_size * first.z * first.data.value(),
                                        setup.plan.seq_length, setup.plan.global_batch_size},
                                       setup.optimizer);
      plan::PlanSpec spec = setup.plan;
      spec.pipeline = {.stages = static_cast<std::int64_t>(pipeline.grids.size()),
                       .schedule = schedule,
                       .layers = pipeline.layers,
                       .grids = pipeline.grids};
      const auto staged = plan::plan_stages(graphs, spec);
      const auto& [model, plan] = std::get<plan::PlannedModel>(staged);
      expect_same_order(setup, compile::compile(model, plan, kernels::cpu::target(1)));
    }
}

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
  const auto staged = plan::plan_stages(graphs, spec);
  const auto& [model, plan] = std::get<plan::PlannedModel>(staged);
  machine::Cluster cluster = small_cluster();
  cluster.levels[0].units = 1;
  cluster.levels[1].link_bytes_per_s = cluster.levels[1].port_bytes_per_s = link_bytes_per_s;
  return simulate::simulate(compile::compile(model, plan, kernels::cpu::target(1)), "train",
                            cluster)
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
