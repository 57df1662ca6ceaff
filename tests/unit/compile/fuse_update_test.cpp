// AdamW of many tensors as one instruction: what is put together, and what is not.
#include "compile/fuse_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "unit/compile/program_edits.h"

namespace fourfold::compile::fuse_update_test {
namespace {

machine::Target fusing_target() {
  return target_that_fuses({"adamw_list"});
}

std::vector<program::Compute> updates_of(const program::Program& program) {
  std::vector<program::Compute> list;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what);
        compute != nullptr && program::is_update(compute->op))
      list.push_back(*compute);
  return list;
}

/// Every update of one tensor: its settings, and the names of what it touches.
std::set<std::string> meaning_of(const program::Program& program) {
  std::set<std::string> meaning;
  for (const program::Compute& compute : updates_of(program))
    program::for_each_piece(compute, [&](const program::Compute& part) {
      std::string text = op::attributes_text(part.op, std::nullopt);
      for (const program::Slice& slice : part.slices)
        text += format(" {}[{}:{}]", program.buffer(slice.buffer).name, slice.offset_bytes,
                       slice.end_bytes());
      meaning.insert(text);
    });
  return meaning;
}

GridSetup setup_of(const plan::Grid& grid, bool shard_states) {
  GridSetup setup;
  setup.set_grid(grid);
  setup.plan.shard_states = shard_states;
  return setup;
}

TEST(FuseUpdate, one_instruction_updates_all_tensors_as_many_would) {
  for (const bool shard_states : {false, true})
    for (const plan::Grid& grid :
         {plan::Grid{}, plan::Grid{.data = 2}, plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
      const GridSetup setup = setup_of(grid, shard_states);
      const program::Program one_by_one =
                                 bundle_for(setup, GridSetup::target()).at(op::ProgramKind::train),
                             together =
                                 bundle_for(setup, fusing_target()).at(op::ProgramKind::train);
      EXPECT_GT(updates_of(one_by_one).size(), 20U);
      // Those whose counts go to other ranks stay apart from those whose counts are whole.
      std::set<program::BufferId> counts;
      for (const program::Compute& update : updates_of(one_by_one))
        counts.insert(update.slices.back().buffer);
      EXPECT_EQ(updates_of(together).size(), counts.size());
      EXPECT_EQ(counts.size() > 1, grid.z > 1 || (shard_states && grid.data > 1));
      EXPECT_EQ(meaning_of(together), meaning_of(one_by_one));
      EXPECT_LE(together.transient_bytes, one_by_one.transient_bytes);
      EXPECT_EQ(together.tasks.size(), one_by_one.tasks.size());
      EXPECT_EQ(together.tasks.back().end, together.instructions.size());
    }
}

TEST(FuseUpdate, the_verifier_finds_no_fault_in_what_is_fused) {
  for (const bool shard_states : {false, true})
    for (const std::int64_t data : {1, 2, 4}) {
      const GridSetup setup = setup_of({.x = 1, .y = 2, .z = 2, .data = data}, shard_states);
      for (const verify::Fault& fault : verify::verify(bundle_for(setup, fusing_target())))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
    }
}

TEST(FuseUpdate, tensors_with_decay_come_first) {
  const auto program = bundle_for(setup_of({}, false), fusing_target()).at(op::ProgramKind::train);
  const program::Compute update = updates_of(program).at(0);
  const auto& all = update.op.get<op::AdamWList>();
  EXPECT_GT(all.decayed, 5);
  EXPECT_GT(all.tensors, all.decayed);
  for (std::int64_t i = 0; i < all.tensors; ++i) {
    const auto& name = program.buffer(update.slices[all.operands_of(i)[5]].buffer).name;
    EXPECT_EQ(name.ends_with(".weight"), i < all.decayed) << name;
  }
}

/// The update task of a program with the updates as they are before the pass.
program::Program unfused() {
  return bundle_for(setup_of({}, false), GridSetup::target()).at(op::ProgramKind::train);
}

TEST(FuseUpdate, nothing_moves_past_what_touches_the_same_memory) {
  program::Program program = unfused();
  const std::vector<std::size_t> places = places_of<op::AdamW>(program);
  // Between the third and the fourth update something writes the gradient of the sixth.
  insert_fill(program, places[3],
              std::get<program::Compute>(program.instructions[places[5]].what).slices[0]);
  const std::set<std::string> meaning = meaning_of(program);
  const program::Program fused = fuse_update(program, fusing_target());
  const auto updates = updates_of(fused);
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_EQ(updates[0].op.get<op::AdamWList>().tensors, 5);
  EXPECT_EQ(meaning_of(fused), meaning);
}

TEST(FuseUpdate, other_settings_are_another_instruction) {
  program::Program program = unfused();
  std::size_t count = 0;
  for (program::Instruction& instruction : program.instructions)
    if (auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (auto* adamw = compute->op.get_if<op::AdamW>(); adamw != nullptr && ++count > 4)
        adamw->beta1 = 0.5;
  const std::set<std::string> meaning = meaning_of(program);
  const program::Program fused = fuse_update(program, fusing_target());
  EXPECT_EQ(updates_of(fused).size(), 2U);
  EXPECT_EQ(meaning_of(fused), meaning);
}

TEST(FuseUpdate, is_left_out_where_the_target_has_no_such_row) {
  const program::Program program = unfused();
  EXPECT_EQ(fuse_update(program, GridSetup::target()), program);
}

}  // namespace
}  // namespace fourfold::compile::fuse_update_test
