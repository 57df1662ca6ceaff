#include "compile/insert_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/compile/one_rank.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

TEST(Waits, the_math_stream_waits_for_its_feed_and_a_slot_is_refilled_only_after_its_last_reader) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  const program::Program train = bundle_of(setup).at(op::ProgramKind::train);
  // Six micro-batches through two slots. The math waits for tokens and for labels of each. From the
  // third on a feed waits until the slot's last reader is done; the tokens are read last, so the
  // labels after them in the stream need no wait of their own.
  std::size_t math_waits = 0, feed_waits = 0;
  for (const auto& instruction : train.instructions)
    if (std::holds_alternative<program::Wait>(instruction.what))
      ++(instruction.stream.index() == 0 ? math_waits : feed_waits);
  EXPECT_EQ(math_waits, 12U);
  EXPECT_EQ(feed_waits, 4U);
}

TEST(Waits, programs_without_a_second_stream_have_none) {
  for (const op::ProgramKind kind : {op::ProgramKind::init, op::ProgramKind::digest})
    EXPECT_EQ(bundle_of({}).at(kind).num_events, 0U);
}

TEST(Waits, dropping_any_single_wait_is_a_race_that_the_verifier_sees) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  const program::Program train = bundle_of(setup).at(op::ProgramKind::train);
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < train.instructions.size(); ++i) {
    if (!std::holds_alternative<program::Wait>(train.instructions[i].what)) continue;
    program::Program broken = train;
    broken.instructions.erase(broken.instructions.begin() + static_cast<std::ptrdiff_t>(i));
    for (program::Task& task : broken.tasks) {
      if (task.begin > i) --task.begin;
      if (task.end > i) --task.end;
    }
    EXPECT_FALSE(verify::verify(broken).empty()) << "wait at " << i;
    ++dropped;
  }
  EXPECT_EQ(dropped, 16U);
}

/// What each stream of a program knows to be done of every stream, instruction by instruction.
class Known {
 public:
  explicit Known(const program::Program& program)
      : now_(program.streams.size(), Counts(program.streams.size(), 0)),
        recorded_(program.num_events) {}

  void pass(const program::Instruction& instruction) {
    Counts& own = now_[instruction.stream.index()];
    if (const auto* record = std::get_if<program::Record>(&instruction.what)) {
      recorded_[record->event.index()] = own;
    } else if (const auto* wait = std::get_if<program::Wait>(&instruction.what)) {
      for (std::size_t s = 0; s < own.size(); ++s)
        own[s] = std::max(own[s], recorded_[wait->event.index()][s]);
    } else {
      ++own[instruction.stream.index()];
    }
  }
  std::size_t of(std::size_t stream, std::size_t other) const { return now_[stream][other]; }

 private:
  using Counts = std::vector<std::size_t>;
  std::vector<Counts> now_, recorded_;
};

/// How often a collective of a kind begins before the computation before it has ended on some
/// stream, or computation after it does not wait for it.
template <class Kind>
std::size_t count_beside_computation(const program::Program& train) {
  Known known(train);
  std::size_t beside = 0;
  std::vector<std::size_t> last(train.streams.size(), 0);  // of the kind, by stream
  for (const program::Instruction& instruction : train.instructions) {
    const std::size_t stream = instruction.stream.index();
    const bool is_order = std::holds_alternative<program::Record>(instruction.what) ||
                          std::holds_alternative<program::Wait>(instruction.what);
    if (!is_order && program::computes(train.streams[stream]))
      for (std::size_t s = 0; s < last.size(); ++s)
        if (known.of(stream, s) < last[s]) ++beside;
    for (std::size_t s = 0; s < last.size() && std::holds_alternative<Kind>(instruction.what); ++s)
      if (program::computes(train.streams[s]) && known.of(stream, s) < known.of(s, s)) ++beside;
    known.pass(instruction);
    if (std::holds_alternative<Kind>(instruction.what)) last[stream] = known.of(stream, stream);
  }
  return beside;
}

void expect_collectives_beside_computation(plan::WeightGradients where) {
  RunSetup setup;
  setup.plan.micro_batch_size = 1;
  setup.plan.grid = {.x = 2, .y = 2, .z = 2, .data = 1};
  const auto train = [&] {
    setup.plan.overlap.weight_gradients = where;
    return bundle_of(setup).at(op::ProgramKind::train);
  };
  EXPECT_GT(count_beside_computation<program::AllReduce>(train()), 0U);
  EXPECT_GT(count_beside_computation<program::ReduceScatter>(train()), 0U);
  EXPECT_GT(count_beside_computation<program::AllGather>(train()), 0U);
  setup.plan.overlap = {.all_reduce = false};
  EXPECT_EQ(count_beside_computation<program::AllReduce>(train()), 0U);
  EXPECT_GT(count_beside_computation<program::AllGather>(train()), 0U);
  setup.plan.overlap = {.reduce_scatter = false};
  EXPECT_EQ(count_beside_computation<program::ReduceScatter>(train()), 0U);
  setup.plan.overlap = {.all_gather = false};
  EXPECT_EQ(count_beside_computation<program::AllGather>(train()), 0U);
  EXPECT_GT(count_beside_computation<program::AllReduce>(train()), 0U);
}

TEST(Waits, computation_stands_still_while_a_collective_runs_that_may_not_run_beside_it) {
  expect_collectives_beside_computation(plan::WeightGradients::in_turn);
  expect_collectives_beside_computation(plan::WeightGradients::beside);
}

/// How many tasks compute before all that earlier tasks sent has left.
std::size_t count_tasks_beside_sends(const program::Program& train) {
  Known known(train);
  std::size_t beside = 0;
  std::vector<std::size_t> sent(train.streams.size(), 0), sent_before = sent;
  for (const program::Task& task : train.tasks) {
    sent_before = sent;
    bool is_beside = false;
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const program::Instruction& instruction = train.instructions[i];
      const std::size_t stream = instruction.stream.index();
      if (std::holds_alternative<program::Compute>(instruction.what))
        for (std::size_t s = 0; s < sent.size(); ++s)
          is_beside = is_beside || known.of(stream, s) < sent_before[s];
      known.pass(instruction);
      if (std::holds_alternative<program::Send>(instruction.what))
        sent[stream] = known.of(stream, stream);
    }
    beside += is_beside ? 1 : 0;
  }
  return beside;
}

TEST(Waits, a_stage_computes_only_between_transfers_that_may_not_run_beside_it) {
  EXPECT_GT(count_beside_computation<program::Recv>(middle_stage(true)), 0U);
  EXPECT_GT(count_tasks_beside_sends(middle_stage(true)), 4U);
  EXPECT_EQ(count_beside_computation<program::Recv>(middle_stage(false)), 0U);
  EXPECT_EQ(count_tasks_beside_sends(middle_stage(false)), 0U);
}

TEST(Waits, a_task_computes_on_while_what_it_sent_itself_is_on_its_way) {
  program::Program program;
  program.meshes = {{"grid", {{"data", 1}}, {Rank(0)}}};
  program.streams = {"math", "send"};
  program.buffers.resize(4);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    program.buffers[b].size_bytes = 64;
    program.buffers[b].offset_bytes = 64 * static_cast<std::int64_t>(b);
  }
  const auto of = [&](std::size_t i) { return program.whole(program::BufferId(i)); };
  const auto computes = [&](std::size_t to) {
    return program::Instruction{
        program::StreamId(std::size_t{0}),
        program::Compute{op::SquaredNorm{}, DType::f32, {of(0), of(to)}, {}, "test"}};
  };
  program.instructions = {computes(1),
                          {program::StreamId(std::size_t{1}), program::Send{Rank(1), 0, of(1)}},
                          computes(2),
                          computes(3)};
  program.tasks = {{program::TaskKind::backward, 0, 0, 3}, {program::TaskKind::backward, 1, 3, 4}};
  plan::Overlap overlap;
  overlap.send_recv = false;
  const program::Program train = insert_waits(program, overlap);
  std::vector<std::size_t> waits;  // of the computation, by task
  for (const program::Task& task : train.tasks)
    waits.push_back(static_cast<std::size_t>(std::count_if(
        train.instructions.begin() + static_cast<std::ptrdiff_t>(task.begin),
        train.instructions.begin() + static_cast<std::ptrdiff_t>(task.end), [](const auto& one) {
          return one.stream.index() == 0 && std::holds_alternative<program::Wait>(one.what);
        })));
  EXPECT_EQ(waits, (std::vector<std::size_t>{0, 1}));
}

}  // namespace
}  // namespace fourfold::compile
