// The rounding of many weights as one instruction: what is put together, and what is not.
#include "compile/fuse_casts.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "unit/compile/program_edits.h"

namespace fourfold::compile::fuse_casts_test {
namespace {

using program::Compute;
using program::Program;

machine::Target fusing_target() {
  return target_that_fuses({"cast_list"});
}

program::Bundle bundle_of(const GridSetup& setup, const machine::Target& target) {
  return bundle_for(setup, target, {{"keep_rounded"}, {}});
}

GridSetup setup_of(const plan::Grid& grid, DType compute = DType::bf16) {
  GridSetup setup;
  setup.plan.compute = compute;
  setup.writes = model::Writes::samples;
  setup.set_grid(grid, 3);
  return setup;
}

std::vector<Compute> casts_of(const Program& program) {
  std::vector<Compute> list;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what);
        compute != nullptr && op::name(compute->op).starts_with("cast"))
      list.push_back(*compute);
  return list;
}

/// Which buffer is rounded into which.
std::set<std::string> meaning_of(const Program& program) {
  std::set<std::string> meaning;
  for (const Compute& compute : casts_of(program))
    program::for_each_piece(compute, [&](const Compute& part) {
      meaning.insert(program.buffer(part.slices[0].buffer).name + " -> " +
                     program.buffer(part.slices[1].buffer).name);
    });
  return meaning;
}

TEST(FuseCasts, one_instruction_rounds_all_weights_as_many_would) {
  for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 1, .y = 1, .z = 2, .data = 1},
                                 plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
    const GridSetup setup = setup_of(grid);
    const program::Bundle one_by_one = bundle_of(setup, GridSetup::target()),
                          together = bundle_of(setup, fusing_target());
    for (const op::ProgramKind kind :
         {op::ProgramKind::train, op::ProgramKind::evaluate, op::ProgramKind::decode}) {
      const std::string_view name = op::to_string(kind);
      const Program &before = one_by_one.at(kind), &after = together.at(kind);
      EXPECT_GT(casts_of(before).size(), 20U) << name;
      ASSERT_EQ(casts_of(after).size(), 1U) << name;
      EXPECT_EQ(casts_of(after)[0].op.get<op::CastList>().tensors,
                static_cast<std::int64_t>(casts_of(before).size()));
      EXPECT_EQ(meaning_of(after), meaning_of(before)) << name;
      EXPECT_EQ(after.tasks.size(), before.tasks.size());
      EXPECT_EQ(after.tasks.back().end, after.instructions.size());
    }
  }
}

TEST(FuseCasts, the_verifier_finds_no_fault_and_programs_read_back) {
  for (const std::int64_t data : {1, 2})
    expect_sound_and_read_back(
        bundle_of(setup_of({.x = 1, .y = 2, .z = 2, .data = data}), fusing_target()));
}

TEST(FuseCasts, nothing_moves_past_what_touches_the_same_memory) {
  Program program = bundle_of(setup_of({}), GridSetup::target()).at(op::ProgramKind::train);
  const std::vector<std::size_t> places = places_of<op::Cast>(program);
  // Between the third and the fourth something writes the weight that the sixth rounds.
  insert_fill(program, places[3],
              std::get<Compute>(program.instructions[places[5]].what).slices[0]);
  const std::set<std::string> meaning = meaning_of(program);
  const Program fused = fuse_casts(program, fusing_target());
  const std::vector<Compute> casts = casts_of(fused);
  ASSERT_EQ(casts.size(), 2U);
  EXPECT_EQ(casts[0].op.get<op::CastList>().tensors, 5);
  EXPECT_EQ(meaning_of(fused), meaning);
}

TEST(FuseCasts, is_left_out_where_the_target_has_no_such_row_or_nothing_is_rounded) {
  const Program rounded = bundle_of(setup_of({}), GridSetup::target()).at(op::ProgramKind::train),
                plain = bundle_of(setup_of({}, DType::f32), GridSetup::target())
                            .at(op::ProgramKind::train);
  EXPECT_EQ(fuse_casts(rounded, GridSetup::target()), rounded);
  EXPECT_EQ(fuse_casts(plain, fusing_target()), plain);
}

}  // namespace
}  // namespace fourfold::compile::fuse_casts_test
