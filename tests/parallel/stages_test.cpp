// Pipelines: stages on meshes of different shape, in every order, train as one rank does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>

#include "base/format.h"
#include "pipeline/dependencies.h"
#include "program/text.h"
#include "support/grids.h"
#include "support/long_run.h"
#include "support/outcome.h"
#include "support/stages.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using pipeline::Schedule;
using test::GridRun;
using test::RunSetup;
using test::SmallRun;
using test::Tensors;
using test::TrainingOutcome;
using namespace test::stages;

TEST(Stages, of_a_gpt_on_two_meshes_equal_the_serial_run) {
  expect_equal_to_serial(gpt(), two_stages, "gpt, two stages");
}

TEST(Stages, of_a_gpt_on_four_meshes_equal_the_serial_run) {
  expect_equal_to_serial(gpt(), four_stages, "gpt, four stages");
}

TEST(Stages, of_a_vgg_on_two_meshes_equal_the_serial_run) {
  expect_equal_to_serial(vgg(), two_stages, "vgg, two stages");
}

TEST(Stages, of_a_vgg_on_four_meshes_equal_the_serial_run) {
  expect_equal_to_serial(vgg(), four_stages, "vgg, four stages");
}

TEST(Stages, of_a_gpt_that_share_meshes_equal_the_serial_run) {
  expect_equal_to_serial(gpt(), interleaved, "gpt, interleaved", {Schedule::interleaved});
  RunSetup beside = gpt();
  beside.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  expect_equal_to_serial(beside, {interleaved[1]}, "gpt, interleaved, weights beside",
                         {Schedule::interleaved});
}

TEST(Stages, of_a_vgg_that_share_meshes_equal_the_serial_run) {
  expect_equal_to_serial(vgg(),
                         {interleaved[0], {{{.x = 2, .data = 1}, {.data = 2}}, {0, 1, 2}, 2}},
                         "vgg, interleaved", {Schedule::interleaved});
}

/// Skips pass over stages, on to the same mesh or another one.
TEST(Stages, of_a_unet_that_share_meshes_equal_the_serial_run) {
  RunSetup setup = test::diffusion_model();
  setup.plan.micro_batch_size = 4;
  expect_equal_to_serial(setup,
                         {{{{.data = 1}, {.data = 1}}, {0, 2, 4}, 2},
                          {{{.x = 2, .data = 1}, {.y = 2, .data = 1}}, {1, 2, 3}, 2},
                          {{{.data = 1}, {.data = 2}}, {0, 1, 2, 3, 4}, 3}},
                         "unet, interleaved", {Schedule::interleaved});
}

TEST(Stages, that_share_meshes_and_compute_again_or_apart_equal_the_serial_run) {
  RunSetup setup = gpt();
  for (const std::int64_t layers : {1, 4}) {
    setup.plan.checkpointing = {.layers = layers};
    expect_equal_to_serial(setup, {interleaved[1], interleaved[4]},
                           "gpt, interleaved, recomputation", {Schedule::interleaved});
  }
  setup.plan.checkpointing = {};
  const Tensors weights = test::rough_weights(setup);
  const TrainingOutcome together = test::run_job(
      setup, compile_stages(setup, interleaved[1], Schedule::interleaved), weights, in_moments);
  for (const std::int64_t delay : {0, 1, 3}) {
    const TrainingOutcome apart =
        test::run_job(setup, compile_stages(setup, interleaved[1], Schedule::interleaved, delay),
                      weights, in_moments);
    EXPECT_EQ(apart.losses, together.losses);
    EXPECT_EQ(apart.gradients, together.gradients);
  }
}

TEST(Stages, with_recomputation_equal_the_serial_run) {
  RunSetup setup = gpt();
  setup.plan.checkpointing = {.layers = 1};
  expect_equal_to_serial(setup, {two_stages[0], four_stages[1]}, "gpt, recomputation");
}

TEST(Stages, with_tasks_or_a_stream_for_weight_gradients_have_the_same_bits) {
  const RunSetup setup = gpt();
  const Tensors weights = test::rough_weights(setup);
  const Pipeline& stages = two_stages[0];
  const TrainingOutcome together =
      test::run_job(setup, compile_stages(setup, stages), weights, in_moments);
  RunSetup beside = setup;
  beside.plan.overlap.weight_gradients = plan::WeightGradients::beside;
  using Delay = std::optional<std::int64_t>;
  for (const Delay delay : {Delay(), Delay(0), Delay(1), Delay(3)})
    for (const RunSetup& changed : {setup, beside}) {
      SCOPED_TRACE(format("delay {}", delay.value_or(-1)));
      const TrainingOutcome apart =
          test::run_job(changed, compile_stages(changed, stages, Schedule::one_f_one_b, delay),
                        weights, in_moments);
      EXPECT_EQ(apart.losses, together.losses);
      EXPECT_EQ(apart.norms, together.norms);
      EXPECT_EQ(apart.gradients, together.gradients);
    }
}

TEST(Stages, with_later_weight_gradients_of_what_is_made_again_have_the_same_bits) {
  RunSetup setup = gpt();
  const Tensors weights = test::rough_weights(setup);
  const Pipeline& stages = four_stages[0];
  const TrainingOutcome kept =
      test::run_job(setup, compile_stages(setup, stages), weights, in_moments);
  setup.plan.checkpointing = {.layers = 1, .keeps_products = true};
  for (const std::int64_t delay : {1, 2}) {
    SCOPED_TRACE(format("delay {}", delay));
    const TrainingOutcome again = test::run_job(
        setup, compile_stages(setup, stages, Schedule::one_f_one_b, delay), weights, in_moments);
    EXPECT_EQ(again.losses, kept.losses);
    EXPECT_EQ(again.gradients, kept.gradients);
  }
}

TEST(Stages, without_transfers_beside_computation_have_the_same_bits) {
  const RunSetup beside = gpt();
  RunSetup apart = beside;
  apart.plan.overlap.send_recv = false;
  const Tensors weights = test::rough_weights(beside);
  for (const Pipeline& stages : {two_stages[0], four_stages[1]})
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::eager_one_f_one_b}) {
      SCOPED_TRACE(name_of(stages, schedule));
      const TrainingOutcome one =
          test::run_job(beside, compile_stages(beside, stages, schedule), weights, in_moments);
      const TrainingOutcome other =
          test::run_job(apart, compile_stages(apart, stages, schedule), weights, in_moments);
      EXPECT_EQ(one.losses, other.losses);
      EXPECT_EQ(one.gradients, other.gradients);
    }
}

/// Messages that ranks of a job send in a training step.
std::int64_t sent_messages(const program::Job& job) {
  std::int64_t messages = 0;
  for (const program::Binding& binding : job.ranks)
    for (const auto& instruction :
         job.classes[binding.of_class].at(op::ProgramKind::train).instructions)
      if (std::holds_alternative<program::Send>(instruction.what)) ++messages;
  return messages;
}

/// Every strategy of Zhuang et al. 2023 (arXiv:2211.05322), and the rival's: the ranks that want a
/// part of a tensor are two or four, on one host and on two, some of them beside a sender.
TEST(Stages, that_pass_tensors_by_any_strategy_equal_the_serial_run) {
  std::vector<Pipeline> pipelines = {
      {{{.data = 2}, {.x = 2, .y = 2, .data = 1}}, {2}},
      {{{.data = 1}, {.x = 2, .y = 2, .z = 1, .data = 1}, {.z = 2, .data = 1}}, {1, 3}}};
  const RunSetup setup = gpt();
  using reshard::Strategy;
  std::set<std::int64_t> messages;
  for (const Strategy strategy : {Strategy::send_recv, Strategy::local_all_gather,
                                  Strategy::global_all_gather, Strategy::alpa}) {
    SCOPED_TRACE(to_string(strategy));
    for (Pipeline& pipeline : pipelines)
      pipeline.reshard = {.strategy = strategy,
                          .ranks_per_host = static_cast<std::int64_t>(pipeline.grids.size())};
    expect_equal_to_serial(setup, pipelines, format("gpt, {}", to_string(strategy)));
    messages.insert(sent_messages(compile_stages(setup, pipelines[0])));
  }
  EXPECT_GE(messages.size(), 3U) << "shares and rings have more messages, a ring of all the most";
}

/// The ranks whose training step receives turns, and from whom the first one comes.
std::map<std::size_t, Rank> turns_of(const program::Job& job) {
  std::map<std::size_t, Rank> result;  // rank, from whom
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    const program::Bundle bundle = program::bundle_of(job, Rank(rank));
    for (const auto& instruction : bundle.at(op::ProgramKind::train).instructions)
      if (const auto* recv = std::get_if<program::Recv>(&instruction.what))
        if (bundle.at(op::ProgramKind::train).buffer(recv->to.buffer).name.starts_with("turn."))
          result.emplace(rank, recv->peer);
  }
  return result;
}

/// Senders of one host have its port one after another, and so have receivers; with all ranks on
/// one host nobody waits.
TEST(Stages, that_take_turns_at_the_port_of_a_host_equal_the_serial_run) {
  std::vector<Pipeline> pipelines = {{{{.data = 2}, {.x = 2, .y = 1, .z = 1, .data = 2}}, {2}},
                                     {{{.x = 2, .data = 2}, {.data = 4}}, {2}},
                                     {{{.data = 3}, {.data = 3}, {.data = 3}}, {1, 3}}};
  const RunSetup setup = gpt();
  for (Pipeline& pipeline : pipelines) {
    SCOPED_TRACE(name_of(pipeline, Schedule::one_f_one_b));
    EXPECT_TRUE(turns_of(compile_stages(setup, pipeline)).empty());
    const std::int64_t per_host = plan::num_ranks(pipeline.grids[0]);
    pipeline.reshard.ranks_per_host = per_host;
    const std::map<std::size_t, Rank> turns = turns_of(compile_stages(setup, pipeline));
    EXPECT_FALSE(turns.empty());
    for (const auto& [rank, from] : turns)
      EXPECT_EQ(static_cast<std::int64_t>(rank) / per_host,
                static_cast<std::int64_t>(from.index()) / per_host)
          << rank;
    RunSetup in_turn = setup;
    in_turn.plan.overlap.send_recv = false;
    EXPECT_TRUE(turns_of(compile_stages(in_turn, pipeline)).empty());
  }
  expect_equal_to_serial(setup, pipelines, "gpt, turns");
}

/// What is received ahead and has not waited for the computation before its place in the list.
std::size_t early_receipts(const program::Program& train) {
  const program::StreamId math{std::size_t{0}};
  std::map<program::EventId, std::size_t> computed;         // instructions of math before the event
  std::vector<std::size_t> known(train.streams.size(), 0);  // by stream: these it has waited for
  std::size_t so_far = 0, early = 0;
  for (const program::Task& task : train.tasks)
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const auto& [stream, what] = train.instructions[i];
      if (const auto* record = std::get_if<program::Record>(&what)) {
        if (stream == math) computed[record->event] = so_far;
      } else if (const auto* wait = std::get_if<program::Wait>(&what)) {
        if (computed.contains(wait->event))
          known[stream.index()] = std::max(known[stream.index()], computed[wait->event]);
      } else if (stream == math) {
        ++so_far;
      } else if (std::holds_alternative<program::Recv>(what) &&
                 task.kind == program::TaskKind::receive) {
        early += known[stream.index()] < so_far ? 1 : 0;
      }
    }
  return early;
}

TEST(Stages, receive_ahead_from_when_computation_has_come_there) {
  const RunSetup setup = gpt();
  std::size_t receipts = 0;
  for (const Schedule schedule : of_one_stage_a_mesh)
    for (const Pipeline& pipeline : {two_stages[0], four_stages[1]})
      for (const program::Bundle& bundle : compile_stages(setup, pipeline, schedule).classes) {
        const program::Program& train = bundle.at(op::ProgramKind::train);
        EXPECT_EQ(early_receipts(train), 0U) << name_of(pipeline, schedule);
        receipts += static_cast<std::size_t>(
            std::ranges::count(train.tasks, program::TaskKind::receive, &program::Task::kind));
      }
  EXPECT_GT(receipts, 50U);
}

/// Every schedule, number of stages from 1 to 8 and of micro-batches from 1 to 16: all of them with
/// FOURFOLD_LONG, else every eleventh.
TEST(Stages, of_every_schedule_number_and_batch_are_proved) {
  RunSetup setup = gpt();
  setup.gpt.num_layers = 8;
  setup.plan.micro_batch_size = 1;
  std::int64_t number = 0, proved = 0;
  for (const Schedule schedule :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b})
    for (std::int64_t stages = 2; stages <= 8; ++stages)
      for (std::int64_t micros = 1; micros <= 16; ++micros) {
        if (number++ % 11 != 0 && !is_long_run()) continue;
        SCOPED_TRACE(
            format("{} of {} stages, {} micro-batches", to_string(schedule), stages, micros));
        setup.plan.global_batch_size = micros;
        setup.plan.overlap.weight_gradients =
            number % 2 == 0 ? plan::WeightGradients::beside : plan::WeightGradients::in_turn;
        Pipeline pipeline;
        for (std::int64_t stage = 0; stage < stages; ++stage) {
          pipeline.grids.push_back({.data = 1});
          if (stage + 1 < stages) pipeline.last_layers.push_back(8 * (stage + 1) / stages - 1);
        }
        compile_stages(setup, pipeline, schedule,
                       micros % 3 == 0 ? std::optional<std::int64_t>(micros % 2) : std::nullopt);
        ++proved;
      }
  EXPECT_EQ(number, 336);
  EXPECT_GE(proved, 30);
}

/// Up to 4 meshes with up to 4 stages each, 12 at most, and 16 micro-batches: all of them with
/// FOURFOLD_LONG, else every seventh.
TEST(Stages, of_every_interleaved_number_and_batch_are_proved) {
  RunSetup setup = gpt();
  setup.gpt.num_layers = 12;
  setup.plan.micro_batch_size = 1;
  std::int64_t number = 0, proved = 0;
  for (std::int64_t meshes = 1; meshes <= 4; ++meshes)
    for (std::int64_t laps = 2; laps <= 4 && meshes * laps <= 12; ++laps)
      for (std::int64_t micros = meshes; micros <= 16; micros += meshes) {
        if (number++ % 7 != 0 && !is_long_run()) continue;
        SCOPED_TRACE(format("{} meshes of {} stages, {} micro-batches", meshes, laps, micros));
        setup.plan.global_batch_size = micros;
        setup.plan.overlap.weight_gradients =
            number % 2 == 0 ? plan::WeightGradients::beside : plan::WeightGradients::in_turn;
        const std::int64_t stages = meshes * laps;
        Pipeline pipeline{{}, {}, laps};
        for (std::int64_t mesh = 0; mesh < meshes; ++mesh) pipeline.grids.push_back({.data = 1});
        for (std::int64_t stage = 1; stage < stages; ++stage)
          pipeline.last_layers.push_back(12 * stage / stages - 1);
        compile_stages(setup, pipeline, Schedule::interleaved,
                       micros % 3 == 0 ? std::optional<std::int64_t>(micros % 2) : std::nullopt);
        ++proved;
      }
  EXPECT_EQ(number, 95);
  EXPECT_GE(proved, 13);
}

TEST(Stages, decide_together) {
  const RunSetup setup = gpt();
  const auto job = compile_stages(setup, four_stages[1]);
  const auto ranks = static_cast<std::int64_t>(job.ranks.size());
  GridRun grid(setup, job);
  std::mutex mutex;
  std::set<std::array<double, 3>> results;
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    op::StepBlock block = SmallRun::block(0, 1e-3, 1);
    block.vote = op::Votes{.stop = rank.rank == 3 ? 1 : 0, .written = 1}.packed();
    const auto result = rank.executor.run(op::ProgramKind::train, block, &feeder);
    const auto evaluated = rank.executor.run(op::ProgramKind::evaluate, block, &feeder);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(result.applied, 1);
    EXPECT_EQ(op::Votes::of(result.votes), (op::Votes{.stop = 1, .written = ranks}));
    results.insert({result.loss_sum, result.grad_norm, evaluated.loss_sum});
  });
  EXPECT_EQ(results.size(), 1U) << "all ranks of all stages have the same results, bit for bit";
}

TEST(Stages, of_which_one_has_no_samples_for_a_rank_are_infeasible) {
  const RunSetup setup = gpt();
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = {.stages = 2, .grids = {{.data = 1}, {.data = 3}}};
  const auto planned = plan::plan_model(graphs, spec);
  const auto& infeasible = std::get<plan::Infeasible>(planned);
  const auto& problem = std::get<plan::UnevenStage>(infeasible.problems.at(0));
  EXPECT_EQ(problem.stage, 1U);
  EXPECT_EQ(problem.samples, 4);
  EXPECT_EQ(problem.replicas, 3);
}

TEST(Stages, in_chunks_are_infeasible) {
  RunSetup setup = gpt();
  setup.plan.chunks = 2;
  setup.plan.pipeline = {.stages = 2, .grids = {{.data = 1}, {.data = 2}}};
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  const auto planned = plan::plan_model(graphs, setup.plan);
  const auto& infeasible = std::get<plan::Infeasible>(planned);
  EXPECT_EQ(std::get<plan::ChunkedStages>(infeasible.problems.at(0)).chunks, 2);
}

/// Weights in float32, also those of a table that a stage receives; each stage rounds its own copy.
/// A residual stream in float32 is received as such, and is no weight. There gradients are rounded
/// before ranks of a stage add them up, and sent to another stage in float32.
TEST(Stages, in_bf16_learn_as_the_serial_run_does) {
  for (const bool wide : {false, true}) {
    SCOPED_TRACE(wide ? "wide residual stream" : "narrow residual stream");
    RunSetup setup = gpt();
    setup.plan.compute = DType::bf16;
    setup.gpt.wide_residual = wide;
    setup.plan.rounds_gradients = wide;
    setup.reference_kernels = true;
    const Tensors weights = test::rough_weights(setup);
    const auto job = compile_stages(setup, {{{.data = 1}, {.x = 1, .data = 2}}, {1}});
    const TrainingOutcome got = test::run_job(setup, job, weights, in_moments);
    const TrainingOutcome serial = run_serial(setup, {.data = 1}, weights);
    // Some 50 roundings to bf16 lie between a token and its loss.
    for (std::size_t step = 0; step < serial.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], serial.losses[step], 8 * 0x1p-8 * serial.losses[step]);
  }
}

TEST(Stages, of_a_job_are_a_text_that_reads_back_and_is_proved) {
  const std::vector<std::pair<std::size_t, Pipeline>> pipelines = {
      {6, two_stages[1]},
      {11, four_stages[2]},
      {16, {{{.x = 2, .y = 2, .z = 2, .data = 1}, {.x = 4, .y = 2, .data = 1}}, {1}}},
      {1024, {{{.x = 2, .y = 2, .z = 2, .data = 64}, {.x = 4, .y = 2, .data = 64}}, {1}}}};
  for (const auto& [ranks, pipeline] : pipelines) {
    SCOPED_TRACE(format("{} ranks", ranks));
    RunSetup setup = gpt();
    setup.plan.micro_batch_size = ranks > 16 ? 1 : 4;
    setup.plan.global_batch_size = 3 * samples_of(setup, pipeline.grids[0]);
    const auto job = compile_stages(setup, pipeline);
    EXPECT_EQ(job.ranks.size(), ranks);
    const std::string text = program::to_text(job);
    const program::Job read = program::parse_job(text, "job");
    EXPECT_TRUE(read == job);
    EXPECT_EQ(program::to_text(read), text);
    EXPECT_TRUE(verify::verify(read).empty());
  }
}

}  // namespace
}  // namespace fourfold
