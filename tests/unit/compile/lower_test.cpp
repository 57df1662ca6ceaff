#include "compile/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/job.h"
#include "unit/compile/grid_setup.h"
#include "unit/compile/one_rank.h"

namespace fourfold::compile {
namespace {

TEST(Lower, the_first_producer_of_a_sum_overwrites_and_all_others_add) {
  const RunSetup setup;
  const program::Program train = bundle_of(setup).at(op::ProgramKind::train);
  std::map<std::size_t, std::vector<bool>> accumulates;  // by gradient buffer
  for (const auto& instruction : train.instructions) {
    const auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr || !op::can_accumulate(compute->op) || program::is_update(compute->op))
      continue;
    for (const program::Slice& slice : compute->slices)
      if (train.buffer(slice.buffer).role == program::BufferRole::gradient &&
          !compute->op.is<op::SquaredNorm>())
        accumulates[slice.buffer.index()].push_back(compute->op !=
                                                    op::with_accumulate(compute->op, false));
  }
  ASSERT_FALSE(accumulates.empty());
  for (const auto& [buffer, list] : accumulates) {
    EXPECT_FALSE(list.front()) << train.buffers[buffer].name;
    for (std::size_t i = 1; i < list.size(); ++i)
      EXPECT_TRUE(list[i]) << train.buffers[buffer].name;
  }
  // A tied table gets two contributions of every micro-batch: from the head and from the embedding.
  const auto wte = train.find_buffer("gradient/wte.weight");
  ASSERT_TRUE(wte.has_value());
  EXPECT_EQ(accumulates.at(wte->index()).size(), 6U);
}

// --- chunks of a micro-batch

GridSetup chunked(std::int64_t chunks, const plan::Grid& grid = {.x = 2, .y = 2, .z = 2}) {
  GridSetup setup;
  setup.gpt.dropout = 0.1;
  setup.plan.micro_batch_size = 4;
  setup.plan.chunks = chunks;
  setup.set_grid(grid);
  return setup;
}

/// How often each group meets in a task of this kind.
std::map<std::string, std::size_t> meetings_of(const program::Program& program,
                                               program::TaskKind kind) {
  std::map<std::string, std::size_t> meetings;
  for (const program::Task& task : program.tasks)
    for (std::size_t i = task.begin; i < task.end && task.kind == kind; ++i)
      std::visit(
          [&]<class Kind>(const Kind& what) {
            if constexpr (program::AnyCollective<Kind>)
              program::for_each_tensor(what, [&](const auto&, const auto&) {
                ++meetings[program.groups[what.group.index()].name];
              });
          },
          program.instructions[i].what);
  return meetings;
}

TEST(Lower, weights_and_their_gradients_move_once_for_all_chunks_and_activations_for_each) {
  const program::Program whole = chunked(1).train(), in_chunks = chunked(2).train();
  std::size_t of_weights = 0, of_activations = 0;
  for (const program::TaskKind kind :
       {program::TaskKind::forward, program::TaskKind::backward, program::TaskKind::update}) {
    const auto before = meetings_of(whole, kind), after = meetings_of(in_chunks, kind);
    for (const auto& [group, count] : before) {
      const bool is_once = group.ends_with(".weights") || group.ends_with(".gradients") ||
                           kind == program::TaskKind::update;
      EXPECT_EQ(after.at(group), is_once ? count : 2 * count) << group;
      (is_once ? of_weights : of_activations) += count;
    }
    EXPECT_EQ(after.size(), before.size());
  }
  EXPECT_GT(of_weights, 0U);
  EXPECT_GT(of_activations, 0U);
}

/// How many collectives of activations of a forward task run beside computation, and how many there
/// are: some begins after it, before any waits for it.
std::pair<std::size_t, std::size_t> count_beside_computation(const program::Program& train) {
  const auto task =
      std::ranges::find(train.tasks, program::TaskKind::forward, &program::Task::kind);
  struct Exchange {
    std::size_t stream;
    std::optional<program::EventId> event;  // recorded after it
    bool is_beside = false, is_over = false;
  };
  std::vector<Exchange> exchanges;
  for (std::size_t i = task->begin; i < task->end; ++i) {
    const program::Instruction& instruction = train.instructions[i];
    const std::size_t stream = instruction.stream.index();
    if (const auto* record = std::get_if<program::Record>(&instruction.what)) {
      for (Exchange& exchange : exchanges)
        if (exchange.stream == stream && !exchange.event) exchange.event = record->event;
    } else if (const auto* wait = std::get_if<program::Wait>(&instruction.what)) {
      const auto last = std::ranges::find(exchanges, std::optional(wait->event), &Exchange::event);
      for (auto one = exchanges.begin(); stream == 0 && last != exchanges.end() && one <= last;
           ++one)
        one->is_over |= one->stream == last->stream;
    } else if (std::holds_alternative<program::Compute>(instruction.what)) {
      for (Exchange& exchange : exchanges) exchange.is_beside |= !exchange.is_over;
    } else if (stream != 0 && !train.streams[stream].ends_with(".weights") &&
               !std::holds_alternative<program::Feed>(instruction.what)) {
      exchanges.push_back({stream, std::nullopt});
    }
  }
  return {std::ranges::count(exchanges, true, &Exchange::is_beside), exchanges.size()};
}

TEST(Lower, collectives_of_one_chunk_run_beside_the_computation_of_the_next) {
  const auto [of_whole, all_of_whole] = count_beside_computation(chunked(1).train());
  EXPECT_GT(all_of_whole, 8U);
  EXPECT_LE(of_whole, 1U) << "each is read by what follows";
  for (const std::int64_t chunks : {2, 4}) {
    const auto [beside, all] = count_beside_computation(chunked(chunks).train());
    EXPECT_GT(all, all_of_whole);
    EXPECT_GE(beside * 4, all * 3) << chunks << " chunks";
  }
}

TEST(Lower, windows_of_all_ranks_and_chunks_cover_the_samples_of_a_micro_batch) {
  for (const plan::Grid& grid : {plan::Grid{.x = 2, .y = 1, .z = 2, .data = 2},
                                 plan::Grid{.x = 8, .y = 2, .z = 1, .data = 2}}) {
    const program::Job job = chunked(2, grid).job();
    std::map<std::size_t, std::map<std::int64_t, std::size_t>> ranks_of;  // by op, then sample
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
      const program::Program train = program::bundle_of(job, Rank(rank)).at(op::ProgramKind::train);
      EXPECT_EQ(train.feeds.chunks, 2);
      std::map<std::int64_t, std::size_t> number;  // by chunk: of the op, in its order
      for (const program::Instruction& instruction : train.instructions) {
        const auto* compute = std::get_if<program::Compute>(&instruction.what);
        const auto window = compute == nullptr ? std::nullopt : op::samples_of(compute->op);
        if (!window || window->micro != 0) continue;
        EXPECT_EQ(window->samples, train.feeds.samples);
        auto& ranks = ranks_of[number[window->chunk]++];
        const std::int64_t count = train.operand_shapes(*compute)[0][0];
        for (std::int64_t b = 0; b < count; ++b) ++ranks[window->first + b];
      }
    }
    EXPECT_GE(ranks_of.size(), 10U);
    for (const auto& [op, ranks] : ranks_of) {
      EXPECT_EQ(ranks.size(), 4U * static_cast<std::size_t>(grid.z * grid.data));
      EXPECT_EQ(ranks.begin()->first, 0);
      for (const auto& [sample, count] : ranks)
        EXPECT_EQ(count, ranks.begin()->second) << "op " << op << ", sample " << sample;
    }
  }
}

}  // namespace
}  // namespace fourfold::compile
