// Sums over many tensors as one instruction: what is put together, and what is not.
#include "compile/fuse_sums.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile::fuse_sums_test {
namespace {

machine::Target fusing_target() {
  machine::Target target = GridSetup::target();
  target.fusions = {"squared_norm"};
  return target;
}

program::Bundle bundle_of(const GridSetup& setup, const machine::Target& target) {
  const graph::ModelGraphs model = setup.graphs();
  return compile(model, setup.solved(model), target).classes[0];
}

program::Program train_program(const plan::Grid& grid, const machine::Target& target) {
  GridSetup setup;
  setup.set_grid(grid);
  return bundle_of(setup, target).at(op::ProgramKind::train);
}

bool is_sum(const program::Instruction& instruction) {
  const auto* compute = std::get_if<program::Compute>(&instruction.what);
  return compute != nullptr && compute->op.is<op::SquaredNorm>();
}

std::size_t count_sums(const program::Program& program) {
  return static_cast<std::size_t>(
      std::count_if(program.instructions.begin(), program.instructions.end(), is_sum));
}

/// What is added to what, one tensor at a time.
std::multiset<std::string> meaning_of(const program::Program& program) {
  std::multiset<std::string> meaning;
  for (const program::Instruction& instruction : program.instructions) {
    if (!is_sum(instruction)) continue;
    program::for_each_piece(
        std::get<program::Compute>(instruction.what), [&](const program::Compute& part) {
          std::string text = format("{} {}", op::name(part.op), attributes_text(part.op, {}));
          for (const program::Slice& slice : part.slices)
            text += format(" {}[{}:{}]", program.buffer(slice.buffer).name, slice.offset_bytes,
                           slice.end_bytes());
          meaning.insert(text);
        });
  }
  return meaning;
}

TEST(FuseSums, one_instruction_adds_up_all_tensors_as_many_would) {
  const auto one_by_one = train_program({}, GridSetup::target()),
             together = train_program({}, fusing_target());
  EXPECT_GT(count_sums(one_by_one), 20U);
  EXPECT_EQ(count_sums(together), 1U);
  EXPECT_EQ(meaning_of(together), meaning_of(one_by_one));
  EXPECT_EQ(together.tasks.back().end, together.instructions.size());
}

TEST(FuseSums, tensors_whose_sums_go_to_other_ranks_stay_apart_from_those_that_are_whole) {
  const plan::Grid grid{.x = 2, .y = 2, .z = 2, .data = 2};
  const auto one_by_one = train_program(grid, GridSetup::target()),
             together = train_program(grid, fusing_target());
  EXPECT_GT(count_sums(together), 1U);
  EXPECT_LT(count_sums(together), 15U);
  EXPECT_EQ(meaning_of(together), meaning_of(one_by_one));
}

TEST(FuseSums, the_verifier_finds_no_fault_in_what_is_fused) {
  for (const bool shard_states : {false, true})
    for (const std::int64_t data : {1, 2, 4}) {
      GridSetup setup;
      setup.set_grid({.x = 1, .y = 2, .z = 2, .data = data});
      setup.plan.shard_states = shard_states;
      for (const verify::Fault& fault : verify::verify(bundle_of(setup, fusing_target())))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
    }
}

TEST(FuseSums, nothing_is_added_behind_a_look_at_the_sum) {
  program::Program program = train_program({}, GridSetup::target());
  std::vector<std::size_t> norms;
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    if (is_sum(program.instructions[i])) norms.push_back(i);
  const auto third = program.instructions[norms[2]];
  const program::Slice sum = std::get<program::Compute>(third.what).slices[1];
  program::Compute look{
      op::Add{}, DType::f64, {sum, sum, program.whole(program::BufferId(0))}, {}, "test"};
  program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(norms[3]),
                              {third.stream, look});
  ++program.tasks.back().end;
  const auto meaning = meaning_of(program);
  const program::Program fused = fuse_sums(program, fusing_target());
  std::vector<std::int64_t> tensors;
  for (const program::Instruction& instruction : fused.instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what))
      if (const auto* norm = compute->op.get_if<op::SquaredNorm>())
        tensors.push_back(norm->tensors);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0], 3);
  EXPECT_EQ(meaning_of(fused), meaning);
}

TEST(FuseSums, is_left_out_where_the_target_has_no_such_row) {
  const program::Program program = train_program({}, GridSetup::target());
  EXPECT_EQ(fuse_sums(program, GridSetup::target()), program);
}

}  // namespace
}  // namespace fourfold::compile::fuse_sums_test
