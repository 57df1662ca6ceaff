// Pipelines: how stages on meshes of different shape pass tensors, decide together, and are proved.
// any_layout_test.cpp shows that they train as one rank does.
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
using namespace test::stages;

/// Messages that ranks of a job send in a training step.
std::int64_t sent_messages(const program::Job& job) {
  std::int64_t messages = 0;
  for (const program::Binding& binding : job.ranks)
    for (const auto& instruction :
         job.classes[binding.of_class].at(op::ProgramKind::train).instructions)
      if (std::holds_alternative<program::Send>(instruction.what)) ++messages;
  return messages;
}

/// The strategies of Zhuang et al. 2023 (arXiv:2211.05322), and the rival's: the ranks that want a
/// part of a tensor are two or four, on two hosts, some of them beside a sender.
TEST(Stages, that_pass_tensors_by_shares_or_in_rings_send_more_messages) {
  Pipeline pipeline{{{.data = 2}, {.x = 2, .y = 2, .data = 1}}, {2}};
  using reshard::Strategy;
  std::set<std::int64_t> messages;
  for (const Strategy strategy : {Strategy::send_recv, Strategy::local_all_gather,
                                  Strategy::global_all_gather, Strategy::alpa}) {
    pipeline.reshard = {.strategy = strategy, .ranks_per_host = 2};
    messages.insert(sent_messages(compile_stages(gpt(), pipeline)));
  }
  EXPECT_GE(messages.size(), 3U) << "a ring of all has the most";
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
TEST(Stages, take_turns_at_the_port_of_a_host) {
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

TEST(Stages, whose_ranks_would_have_no_row_of_a_shared_table_are_infeasible) {
  RunSetup setup = gpt();
  setup.gpt.vocab_size = 5;
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = Pipeline{{{.x = 2, .y = 2, .data = 1}, {.data = 1}}, {2}}.with(
      Schedule::one_f_one_b, setup.gpt.num_layers);
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  const auto planned = plan::plan_model(graphs, spec);
  const auto* infeasible = std::get_if<plan::Infeasible>(&planned);
  ASSERT_NE(infeasible, nullptr);
  const auto* padded = std::get_if<plan::PaddedTransfer>(&infeasible->problems.at(0));
  ASSERT_NE(padded, nullptr);
  EXPECT_EQ(padded->rows, 5);
  EXPECT_EQ(padded->ranks, 4);
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
