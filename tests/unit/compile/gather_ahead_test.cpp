// Gathers ahead of their readers: how far they go, and what holds them.
#include "compile/gather_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compile/place_buffers.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile::gather_ahead_test {
namespace {

using program::AllGather;
using program::Program;

GridSetup setup_on_z(std::int64_t layers) {
  GridSetup setup;
  setup.gpt.num_layers = layers;
  setup.set_grid({.x = 1, .y = 1, .z = 4, .data = 1}, 2);
  return setup;
}

Program train_of(const GridSetup& setup, const std::vector<std::string>& without = {}) {
  const graph::ModelGraphs model = setup.graphs();
  const program::Bundle bundle =
      compile(model, setup.solved(model), GridSetup::target(), {.without = without}).classes[0];
  for (const verify::Fault& fault : verify::verify(bundle))
    ADD_FAILURE() << fault.rule << ": " << fault.message;
  return bundle.at(op::ProgramKind::train);
}

std::vector<std::size_t> gathers_of(const Program& program) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (std::holds_alternative<AllGather>(program.instructions[i].what)) list.push_back(i);
  return list;
}

/// The first instruction after `index` that computes with what a gather brings.
std::optional<std::size_t> first_reader(const Program& program, std::size_t index) {
  const auto& gather = std::get<AllGather>(program.instructions[index].what);
  for (std::size_t i = index + 1; i < program.instructions.size(); ++i) {
    if (program.instructions[i].stream.index() != 0) continue;
    for (const program::Access& access : program::accesses(program.instructions[i]))
      for (const program::Slice& to : gather.to)
        if (access.slice.buffer == to.buffer) return i;
  }
  return std::nullopt;
}

/// How many gathers begin before what the one before them brought is read.
std::size_t count_ahead(const Program& program) {
  const std::vector<std::size_t> gathers = gathers_of(program);
  std::size_t ahead = 0;
  for (std::size_t g = 1; g < gathers.size(); ++g)
    if (const auto reader = first_reader(program, gathers[g - 1]); reader && gathers[g] < *reader)
      ++ahead;
  return ahead;
}

TEST(GatherAhead, each_gather_begins_before_what_the_one_before_it_brought_is_read) {
  for (const std::int64_t repeated : {0, 1}) {
    GridSetup setup = setup_on_z(3);
    setup.plan.checkpointing.layers = repeated;
    const Program plain = train_of(setup, {"gather_ahead"}), ahead = train_of(setup);
    EXPECT_EQ(count_ahead(plain), 0U);
    // All but the first of the step, and the first of the second micro-batch where it finds the
    // memory still in use that the backward pass reads last.
    EXPECT_GE(count_ahead(ahead) + 2, gathers_of(ahead).size());
    EXPECT_EQ(gathers_of(ahead).size(), gathers_of(plain).size());
  }
}

TEST(GatherAhead, one_more_gathered_tensor_is_in_memory_at_most) {
  GridSetup setup = setup_on_z(3);
  setup.plan.checkpointing.layers = 1;
  const Program plain = train_of(setup, {"gather_ahead"}), ahead = train_of(setup);
  std::int64_t largest = 0;
  for (const std::size_t g : gathers_of(ahead))
    for (const program::Slice& to : std::get<AllGather>(ahead.instructions[g].what).to)
      largest = std::max(largest, to.bytes());
  EXPECT_GT(largest, 0);
  EXPECT_LE(live_bytes_bound(ahead), live_bytes_bound(plain) + largest);
}

TEST(GatherAhead, where_gathers_may_not_run_beside_computation_none_goes_ahead) {
  GridSetup setup = setup_on_z(2);
  setup.plan.overlap.all_gather = false;
  EXPECT_EQ(count_ahead(train_of(setup)), 0U);
}

TEST(GatherAhead, what_an_update_has_changed_is_gathered_after_it) {
  GridSetup setup;
  setup.plan.shard_states = true;
  setup.set_grid({.x = 1, .y = 1, .z = 1, .data = 2}, 2);
  const Program train = train_of(setup);
  std::size_t gathers = 0;
  for (const std::size_t g : gathers_of(train)) {
    EXPECT_GE(g, train.tasks.back().begin);
    ++gathers;
  }
  EXPECT_GT(gathers, 0U);
}

TEST(GatherAhead, what_another_stage_sent_is_gathered_within_the_task_that_reads_it) {
  Program program;
  program.streams = {"math", "z", "receive"};
  program.buffers.resize(7);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    constexpr const char* names[] = {"share", "weight", "message", "activation",
                                     "first", "second", "third"};
    program.buffers[b].name = names[b];
    program.buffers[b].size_bytes = 64;
  }
  const auto of = [&](const char* name) { return program.whole(*program.find_buffer(name)); };
  const auto add = [&](std::size_t stream, program::What what) {
    program.instructions.push_back({program::StreamId(stream), std::move(what)});
  };
  const auto reads = [&](const char* from, const char* to) {
    add(0, program::Compute{op::SquaredNorm{}, DType::f32, {of(from), of(to)}, {}, "test"});
  };
  const auto gathers = [&](const char* from, const char* to) {
    add(1, AllGather{program::GroupId(0), {of(from)}, {of(to)}});
  };
  program.meshes = {{"grid", {{"z", 1}}, {Rank(0)}}};
  add(2, program::Recv{Rank(1), 0, of("message")});
  gathers("share", "weight");
  reads("weight", "first");
  reads("share", "second");
  gathers("message", "activation");
  reads("activation", "third");
  program.tasks = {{program::TaskKind::receive, 1, 0, 1},
                   {program::TaskKind::forward, 0, 1, 3},
                   {program::TaskKind::forward, 1, 3, 6}};
  const Program ahead = gather_ahead(program);
  EXPECT_EQ(ahead.tasks, program.tasks);
  EXPECT_EQ(ahead.instructions[3], program.instructions[4]);
  EXPECT_EQ(ahead.instructions[4], program.instructions[3]);
}

}  // namespace
}  // namespace fourfold::compile::gather_ahead_test
