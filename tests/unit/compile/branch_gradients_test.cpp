// Gradients of weights on a stream of their own: what goes there, what it costs in memory, and that
// every wait it brings is needed.
#include "compile/branch_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/fused_rows.h"
#include "unit/compile/one_rank.h"
#include "verify/verify.h"

namespace fourfold::compile::branch_gradients_test {
namespace {

using plan::WeightGradients;
using program::Program;

/// Products ask for scratch.
machine::Target target_of(int compute_streams) {
  machine::Target target = test_target();
  target.workspace_bytes = [](const std::string&, const op::Op& op, op::Shapes all, DType) {
    return op.is<op::Contract>() ? all[2].elements() * 4 : std::int64_t{0};
  };
  target.compute_streams = compute_streams;
  return target;
}

Program train_of(const RunSetup& setup, const machine::Target& target = target_of(1),
                 const PassOptions& options = {}) {
  const program::Bundle bundle =
      compile(setup.graphs(), setup.solved(), target, options).classes[0];
  for (const verify::Fault& fault : verify::verify(bundle))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  return bundle.at(op::ProgramKind::train);
}

RunSetup setup_with(WeightGradients where) {
  RunSetup setup;
  setup.plan.overlap.weight_gradients = where;
  return setup;
}

std::size_t stream_of(const Program& program, std::string_view name) {
  const auto found = std::ranges::find(program.streams, name);
  EXPECT_NE(found, program.streams.end()) << name;
  return static_cast<std::size_t>(found - program.streams.begin());
}

bool is_backward(program::TaskKind kind) {
  return kind == program::TaskKind::backward || kind == program::TaskKind::weight_backward;
}

/// How many instructions of backward tasks on the math stream read what the other one has written.
std::size_t count_held_up(const Program& program) {
  const std::size_t gradients = stream_of(program, program::gradient_stream);
  std::vector<std::size_t> writers(program.buffers.size(), 0);  // the last stream, by buffer
  std::size_t held_up = 0;
  for (const program::Task& task : program.tasks)
    for (std::size_t i = task.begin; i < task.end; ++i) {
      const program::Instruction& instruction = program.instructions[i];
      for (const program::Access& access : program::accesses(instruction)) {
        std::size_t& writer = writers[access.slice.buffer.index()];
        if (access.role != op::Role::write && writer == gradients && is_backward(task.kind) &&
            instruction.stream.index() == 0)
          ++held_up;
        if (access.role != op::Role::read) writer = instruction.stream.index();
      }
    }
  return held_up;
}

/// The ops of backward tasks by the stream that they are on.
std::map<std::string, std::set<std::string>> streams_by_op(const Program& program) {
  std::map<std::string, std::set<std::string>> result;
  for (const program::Task& task : program.tasks)
    for (std::size_t i = task.begin; i < task.end && is_backward(task.kind); ++i)
      if (const auto* compute = std::get_if<program::Compute>(&program.instructions[i].what))
        result[std::string(op::name(compute->op))].insert(
            program.streams[program.instructions[i].stream.index()]);
  return result;
}

TEST(BranchGradients, the_backward_pass_waits_for_no_gradient_of_a_weight) {
  for (const std::int64_t repeated : {0, 1})
    for (const std::int64_t micro : {2, 6}) {
      RunSetup setup = setup_with(WeightGradients::beside);
      setup.plan.checkpointing.layers = repeated;
      setup.plan.micro_batch_size = micro;
      const Program train = train_of(setup);
      EXPECT_EQ(count_held_up(train), 0U);
      const std::size_t gradients = stream_of(train, program::gradient_stream);
      std::size_t products = 0;
      for (const program::Instruction& instruction : train.instructions) {
        const auto* compute = std::get_if<program::Compute>(&instruction.what);
        if (compute == nullptr || !compute->op.is<op::Contract>()) continue;
        const bool makes_gradient =
            train.buffer(compute->slices.back().buffer).role == program::BufferRole::gradient;
        EXPECT_EQ(instruction.stream.index() == gradients, makes_gradient);
        products += makes_gradient ? 1 : 0;
      }
      // Four of each of three layers, and that of the head.
      EXPECT_EQ(products, 13U * static_cast<std::size_t>(6 / micro));
    }
}

TEST(BranchGradients, what_is_made_together_with_something_urgent_stays) {
  machine::Target target = target_of(2);
  EXPECT_EQ(streams_by_op(train_of({}, target)).at("bias_gradient"),
            (std::set<std::string>{"gradients"}));
  target.fusions.assign(kernels::norm_gradient_chains.begin(), kernels::norm_gradient_chains.end());
  target.fusions.emplace_back("gelu_gradient&bias_gradient");
  bool has_fused = false;
  for (const auto& [op, streams] : streams_by_op(train_of({}, target)))
    if (op.find('&') != op.npos) {
      has_fused = true;
      EXPECT_EQ(streams, (std::set<std::string>{"math"})) << op;
    }
  EXPECT_TRUE(has_fused);
}

TEST(BranchGradients, the_target_decides_unless_the_plan_does) {
  const auto train = [](WeightGradients where, int streams) {
    return train_of(setup_with(where), target_of(streams));
  };
  const Program beside = train(WeightGradients::beside, 1),
                in_turn = train(WeightGradients::in_turn, 1);
  EXPECT_NE(beside, in_turn);
  EXPECT_EQ(train(WeightGradients::automatic, 1), in_turn);
  EXPECT_EQ(train(WeightGradients::automatic, 2), beside);
  EXPECT_EQ(train(WeightGradients::in_turn, 2), in_turn);
  EXPECT_EQ(train_of(setup_with(WeightGradients::beside), target_of(2),
                     {.without = {"branch_gradients"}}),
            in_turn);
}

TEST(BranchGradients, the_scratch_of_one_stream_is_never_that_of_the_other) {
  const Program train = train_of(setup_with(WeightGradients::beside));
  std::map<program::BufferId, std::set<std::size_t>> streams;
  for (const program::Instruction& instruction : train.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (compute->workspace)
        streams[compute->workspace->buffer].insert(instruction.stream.index());
  ASSERT_EQ(streams.size(), 2U);
  for (const auto& [buffer, those] : streams) EXPECT_EQ(those.size(), 1U);
}

TEST(BranchGradients, memory_grows_by_one_part_in_32_at_most_and_not_beyond_the_limit) {
  std::size_t grew = 0;
  for (const std::int64_t layers : {2, 6, 12})
    for (const std::int64_t length : {2, 6, 48}) {
      RunSetup setup = setup_with(WeightGradients::beside);
      setup.gpt.num_layers = layers;
      setup.gpt.max_position_embeddings = setup.plan.seq_length = length;
      const auto bytes = [&](const PassOptions& options = {}) {
        const Program train = train_of(setup, target_of(1), options);
        return train.persistent_bytes + train.transient_bytes;
      };
      const std::int64_t least = bytes({.room = Room()}), usual = bytes();
      EXPECT_LE(usual, least + least / most_growth);
      setup.plan.memory_limit = least;
      EXPECT_LE(bytes(), least);
      grew += usual > least ? 1 : 0;
    }
  EXPECT_GT(grew, 0U);
}

TEST(BranchGradients, dropping_any_single_wait_is_a_race_that_the_verifier_sees) {
  for (const std::int64_t lag : {0, 2'000, 1'000'000}) {
    RunSetup setup = setup_with(WeightGradients::beside);
    const Program train =
        train_of(setup, target_of(1), {.room = Room{.reach = {.gradient_bytes = lag}}});
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < train.instructions.size(); ++i) {
      if (!std::holds_alternative<program::Wait>(train.instructions[i].what)) continue;
      Program broken = train;
      broken.instructions.erase(broken.instructions.begin() + static_cast<std::ptrdiff_t>(i));
      for (program::Task& task : broken.tasks) {
        if (task.begin > i) --task.begin;
        if (task.end > i) --task.end;
      }
      EXPECT_FALSE(verify::verify(broken).empty()) << "lag " << lag << ", wait at " << i;
      ++dropped;
    }
    EXPECT_GT(dropped, 20U);
  }
}

/// How often the math stream waits for the other one.
std::size_t count_waits_for_gradients(const Program& program) {
  const std::size_t gradients = stream_of(program, program::gradient_stream);
  std::vector<bool> is_of_gradients(program.num_events, false);
  std::size_t count = 0;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* record = std::get_if<program::Record>(&instruction.what))
      is_of_gradients[record->event.index()] = instruction.stream.index() == gradients;
    else if (const auto* wait = std::get_if<program::Wait>(&instruction.what))
      if (instruction.stream.index() == 0 && is_of_gradients[wait->event.index()]) ++count;
  return count;
}

TEST(BranchGradients, computation_waits_less_for_a_stream_that_may_lag) {
  const auto waits = [](std::int64_t bytes) {
    return count_waits_for_gradients(train_of(setup_with(WeightGradients::beside), target_of(1),
                                              {.room = Room{.reach = {.gradient_bytes = bytes}}}));
  };
  EXPECT_LT(2 * waits(1'000'000), waits(0));
  EXPECT_LE(waits(1'000'000), waits(2'000));
}

}  // namespace
}  // namespace fourfold::compile::branch_gradients_test
