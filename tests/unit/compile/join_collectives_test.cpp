// Small collectives as one: what is put together, what stays alone, and that nothing else changes.
#include "compile/join_collectives.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/text.h"
#include "program/text_instruction.h"
#include "program/traffic.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile::join_collectives_test {
namespace {

using program::AllReduce;
using program::Program;
using program::Slice;

/// One norm of all gradients, so that nothing reads them between their collectives.
program::Bundle bundle_of(const GridSetup& setup, bool joins) {
  const graph::ModelGraphs model = setup.graphs();
  machine::Target target = GridSetup::target();
  target.fusions = {"squared_norm"};
  PassOptions options;
  if (!joins) options.without = {"join_collectives"};
  return compile(model, setup.solved(model), target, options).classes[0];
}

GridSetup setup_of(const plan::Grid& grid, bool shards_states = false) {
  GridSetup setup;
  setup.plan.shard_states = shards_states;
  setup.plan.bucket_bytes = 0;
  setup.set_grid(grid, 2);
  return setup;
}

/// A collective for each task, kind, group and tensor, however many tensors one instruction has.
std::multiset<std::string> meaning_of(const Program& program) {
  std::multiset<std::string> meaning;
  for (const program::Task& task : program.tasks)
    for (std::size_t i = task.begin; i < task.end; ++i)
      std::visit(
          [&]<class Kind>(const Kind& what) {
            if constexpr (program::AnyCollective<Kind>)
              program::for_each_tensor(what, [&](const Slice& from, const Slice& to) {
                meaning.insert(format("{} {} {} {} {}", program::short_text(task),
                                      to_string(what.kind), program.groups[what.group.index()].name,
                                      program::slice_text(program, from),
                                      program::slice_text(program, to)));
              });
          },
          program.instructions[i].what);
  return meaning;
}

std::vector<std::size_t> sizes_of(const Program& program) {
  std::vector<std::size_t> sizes;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* reduce = std::get_if<AllReduce>(&instruction.what))
      sizes.push_back(reduce->data.size());
  return sizes;
}

TEST(JoinCollectives, every_tensor_meets_its_group_as_before_and_the_ranks_meet_less_often) {
  for (const bool shards_states : {false, true})
    for (const plan::Grid& grid : {plan::Grid{.x = 1, .y = 1, .z = 1, .data = 2},
                                   plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
      const program::Bundle alone = bundle_of(setup_of(grid, shards_states), false),
                            joined = bundle_of(setup_of(grid, shards_states), true);
      const Program &before = alone.at(op::ProgramKind::train),
                    &after = joined.at(op::ProgramKind::train);
      EXPECT_EQ(meaning_of(after), meaning_of(before));
      EXPECT_LT(sizes_of(after).size(), sizes_of(before).size());
      EXPECT_EQ(joined.transient_bytes, alone.transient_bytes);
      for (const verify::Fault& fault : verify::verify(joined))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
      EXPECT_EQ(program::parse_bundle(program::to_text(joined), "joined"), joined);
    }
}

TEST(JoinCollectives, those_of_different_chunks_stay_apart) {
  GridSetup setup;
  setup.plan.micro_batch_size = 2;
  setup.plan.chunks = 2;
  setup.set_grid({.x = 2, .y = 2, .z = 1, .data = 2}, 2);
  const program::Bundle joined = bundle_of(setup, true);
  const Program& train = joined.at(op::ProgramKind::train);
  std::size_t of_several = 0;
  for (const program::Instruction& instruction : train.instructions) {
    const auto* reduce = std::get_if<AllReduce>(&instruction.what);
    if (reduce == nullptr || reduce->data.size() == 1) continue;
    ++of_several;
    std::set<std::string> endings;  // "#0" of the first chunk, nothing where all have one tensor
    for (const Slice& slice : reduce->data) {
      const std::string& name = train.buffer(slice.buffer).name;
      endings.insert(name.substr(std::min(name.find('#'), name.size())));
    }
    EXPECT_EQ(endings.size(), 1U) << program::short_text(train, instruction);
  }
  EXPECT_GT(of_several, 0U);
  for (const verify::Fault& fault : verify::verify(joined))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
}

TEST(JoinCollectives, those_of_a_stage_stay_alone) {
  GridSetup setup = setup_of({.x = 1, .y = 1, .z = 1, .data = 2});
  setup.plan.pipeline = {
      .stages = 2, .layers = {1, 1}, .grids = {setup.plan.grid, setup.plan.grid}};
  machine::Target target = GridSetup::target();
  target.fusions = {"squared_norm"};
  const auto [model, plan] =
      std::get<plan::PlannedModel>(plan::plan_model(setup.graphs(), setup.plan));
  for (const program::Bundle& bundle : compile(model, plan, target).classes)
    for (const std::size_t size : sizes_of(bundle.at(op::ProgramKind::train))) EXPECT_EQ(size, 1U);
}

TEST(JoinCollectives, gathers_of_updated_rows_join_too) {
  const program::Bundle bundle =
      bundle_of(setup_of({.x = 1, .y = 1, .z = 1, .data = 2}, true), true);
  std::size_t most = 0;
  for (const program::Instruction& instruction : bundle.at(op::ProgramKind::train).instructions)
    if (const auto* gather = std::get_if<program::AllGather>(&instruction.what))
      most = std::max(most, gather->to.size());
  EXPECT_GT(most, 1U);
}

TEST(JoinCollectives, traffic_is_the_same_but_for_calls) {
  const GridSetup setup = setup_of({.x = 2, .y = 1, .z = 2, .data = 2});
  const auto of = [&](bool joins) {
    return program::traffic(bundle_of(setup, joins).at(op::ProgramKind::train));
  };
  std::map<std::string, std::pair<std::int64_t, double>> bytes;
  std::int64_t calls = 0;
  const auto key = [](const program::Traffic& entry) {
    return format("{} {} {}", entry.axis, entry.kind, entry.label);
  };
  for (const program::Traffic& entry : of(false)) {
    bytes[key(entry)] = {entry.payload_bytes, entry.sent_bytes};
    calls += entry.calls;
  }
  std::int64_t joined_calls = 0;
  std::size_t entries = 0;
  for (const program::Traffic& entry : of(true)) {
    EXPECT_EQ(bytes.at(key(entry)).first, entry.payload_bytes) << key(entry);
    EXPECT_DOUBLE_EQ(bytes.at(key(entry)).second, entry.sent_bytes) << key(entry);
    joined_calls += entry.calls;
    ++entries;
  }
  EXPECT_EQ(entries, bytes.size());
  EXPECT_LT(joined_calls, calls);
}

// --- what stays alone, in programs made by hand

constexpr std::int64_t kib = 1024;

/// All-reduces of buffers of these sizes in one task; before collective `touched`, something reads
/// the first buffer.
Program reductions_of(const std::vector<std::int64_t>& sizes, std::size_t touched = 0) {
  Program program;
  program.kind = op::ProgramKind::train;
  program.world = 2;
  program.meshes = {{"grid", {{"data", 2}}, {Rank(0), Rank(1)}}};
  program.streams = {"math", "data"};
  program.groups = {{"data", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}}};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    program::Buffer buffer;
    buffer.name = format("g{}", i);
    buffer.global = {sizes[i] / 4};
    buffer.size_bytes = sizes[i];
    buffer.role = program::BufferRole::gradient;
    program.buffers.push_back(buffer);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && i == touched)
      program.instructions.push_back({program::StreamId(std::size_t{0}),
                                      program::Compute{op::SquaredNorm{},
                                                       DType::f32,
                                                       {program.whole(program::BufferId(0)),
                                                        program.whole(program::BufferId(1))},
                                                       {},
                                                       "test"}});
    program.instructions.push_back(
        {program::StreamId(std::size_t{1}),
         AllReduce{
             program::GroupId(0), op::Reduction::sum, {program.whole(program::BufferId(i))}}});
  }
  program.tasks = {{program::TaskKind::update, std::nullopt, 0, program.instructions.size()}};
  return program;
}

TEST(JoinCollectives, what_is_large_stays_alone_and_lists_have_an_end) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(sizes_of(join_collectives(reductions_of({64, 32 * kib, 32 * kib + 4, 64}))),
            (Sizes{1, 3}));
  EXPECT_EQ(sizes_of(join_collectives(reductions_of(std::vector<std::int64_t>(9, 32 * kib)))),
            (Sizes{8, 1}));
  EXPECT_EQ(sizes_of(join_collectives(reductions_of(std::vector<std::int64_t>(65, 64)))),
            (Sizes{64, 1}));
}

TEST(JoinCollectives, nothing_moves_past_what_touches_its_tensor) {
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(sizes_of(join_collectives(reductions_of({64, 64, 64, 64}, 2))), (Sizes{2, 2}));
}

TEST(JoinCollectives, what_differs_stays_apart) {
  const auto changed = [](const auto& change) {
    Program program = reductions_of({64, 64, 64});
    change(program, std::get<AllReduce>(program.instructions[1].what));
    return sizes_of(join_collectives(program));
  };
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(changed([](Program&, AllReduce&) {}), (Sizes{3}));
  EXPECT_EQ(changed([](Program&, AllReduce& what) { what.reduction = op::Reduction::max; }),
            (Sizes{1, 2}));
  EXPECT_EQ(changed([](Program& program, AllReduce&) { program.buffers[1].dtype = DType::i32; }),
            (Sizes{1, 2}));
  EXPECT_EQ(changed([](Program& program, AllReduce& what) {
              program.groups.push_back(program.groups[0]);
              what.group = program::GroupId(1);
            }),
            (Sizes{1, 2}));
  EXPECT_EQ(changed([](Program& program, AllReduce&) {
              program.tasks[0].end = 1;
              program.tasks.push_back({program::TaskKind::digest, std::nullopt, 1, 3});
            }),
            (Sizes{1, 2}));
}

}  // namespace
}  // namespace fourfold::compile::join_collectives_test
