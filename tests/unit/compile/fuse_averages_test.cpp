// The moving averages of many weights as one instruction: what is put together, and what is not.
#include "compile/fuse_averages.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "unit/compile/program_edits.h"

namespace fourfold::compile::fuse_averages_test {
namespace {

using program::Compute;
using program::Program;

machine::Target fusing_target() {
  return target_that_fuses({"moving_average_list"});
}

GridSetup setup_of(const plan::Grid& grid, double decay = 0.75) {
  GridSetup setup = small_unet(grid);
  setup.unet->diffusion.average_decay = decay;
  return setup;
}

std::vector<Compute> averages_of(const Program& program) {
  std::vector<Compute> list;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what);
        compute != nullptr && op::updates(compute->op, op::State::average))
      list.push_back(*compute);
  return list;
}

/// Which weight moves which average.
std::set<std::pair<std::string, std::string>> meaning_of(const Program& program) {
  std::set<std::pair<std::string, std::string>> meaning;
  for (const Compute& compute : averages_of(program))
    program::for_each_piece(compute, [&](const Compute& piece) {
      EXPECT_EQ(piece.op, op::Op(op::MovingAverage{0.75}));
      meaning.insert({program.buffer(piece.slices[0].buffer).name,
                      program.buffer(piece.slices[2].buffer).name});
    });
  return meaning;
}

TEST(FuseAverages, one_instruction_moves_all_averages_as_many_would) {
  for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 1, .y = 1, .z = 2, .data = 1},
                                 plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
    const GridSetup setup = setup_of(grid);
    const Program before = bundle_for(setup, GridSetup::target()).at(op::ProgramKind::train),
                  after = bundle_for(setup, fusing_target()).at(op::ProgramKind::train);
    EXPECT_GT(averages_of(before).size(), 50U);
    ASSERT_EQ(averages_of(after).size(), 1U);
    EXPECT_EQ(averages_of(after)[0].op.get<op::MovingAverageList>().tensors,
              static_cast<std::int64_t>(averages_of(before).size()));
    EXPECT_EQ(meaning_of(after), meaning_of(before));
  }
}

TEST(FuseAverages, the_verifier_finds_no_fault_and_programs_read_back) {
  for (const std::int64_t data : {1, 2})
    expect_sound_and_read_back(
        bundle_for(setup_of({.x = 1, .y = 2, .z = 2, .data = data}), fusing_target()));
}

TEST(FuseAverages, nothing_moves_past_what_touches_the_same_memory) {
  Program program = bundle_for(setup_of({}), GridSetup::target()).at(op::ProgramKind::train);
  const std::vector<std::size_t> places = places_of<op::MovingAverage>(program);
  const std::set<std::pair<std::string, std::string>> meaning = meaning_of(program);
  // Between the third and the fourth something writes the weight that the sixth reads.
  insert_fill(program, places[3],
              std::get<Compute>(program.instructions[places[5]].what).slices[0]);
  const Program fused = fuse_averages(program, fusing_target());
  const std::vector<Compute> averages = averages_of(fused);
  ASSERT_EQ(averages.size(), 2U);
  EXPECT_EQ(averages[0].op.get<op::MovingAverageList>().tensors, 5);
  EXPECT_EQ(meaning_of(fused), meaning);
}

TEST(FuseAverages, is_left_out_where_the_target_has_no_such_row_or_nothing_is_averaged) {
  const Program averaged = bundle_for(setup_of({}), GridSetup::target()).at(op::ProgramKind::train),
                plain = bundle_for(setup_of({}, 0), GridSetup::target()).at(op::ProgramKind::train);
  EXPECT_EQ(fuse_averages(averaged, GridSetup::target()), averaged);
  EXPECT_EQ(fuse_averages(plain, fusing_target()), plain);
}

}  // namespace
}  // namespace fourfold::compile::fuse_averages_test
