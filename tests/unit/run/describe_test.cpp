#include "run/describe.h"

#include <gtest/gtest.h>

#include "run/program_groups.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

/// A copy on math, an all-reduce on x that waits for it, a copy after that on math.
Handmade example() {
  Handmade made(op::ProgramKind::train);
  program::Program& program = made.edit();
  program.rank = Rank(3);
  program.world = 4;
  program.meshes = {{"all", {{"y", 2}, {"x", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}}};
  program.groups = {{"x", MeshId(0), {AxisId(1)}, {Rank(2), Rank(3)}},
                    {"y", MeshId(0), {AxisId(0)}, {Rank(3)}}};
  const auto a = made.floats("a", 4), b = made.floats("b", 4);
  const auto copied = made.event();
  made.copy("math", a, b);
  made.add("math", program::Record{copied});
  made.add("x", program::Wait{copied});
  made.add("x", program::AllReduce{program::GroupId(0), Reduction::sum, {made.whole(b)}});
  made.add("x", program::AllReduce{program::GroupId(0), Reduction::sum, {{a, 0, 1, 4, 0}}});
  made.add("y", program::AllReduce{program::GroupId(1), Reduction::sum, {made.whole(b)}});
  program.tasks = {{program::TaskKind::forward, 0, 0, 3}, {program::TaskKind::update, {}, 3, 6}};
  return made;
}

TEST(Describe, an_instruction_is_named_with_operands_task_and_program) {
  const program::Program program = example().program();
  EXPECT_EQ(describe_instruction(program, 0), "instruction 0 (copy a -> b in forward(0)) of train");
  EXPECT_EQ(describe_instruction(program, 3).substr(0, 26), "instruction 3 (all_reduce ");
  EXPECT_NE(describe_instruction(program, 3).find(" in update) of train"), std::string::npos);
}

TEST(Describe, a_wait_is_named_after_what_it_waits_for) {
  const program::Program program = example().program();
  EXPECT_EQ(describe_instruction(program, 2),
            "instruction 2 (wait for copy a -> b on math in forward(0)) of train");
}

TEST(Describe, waits_and_collectives_wait_and_copies_do_not) {
  const program::Program program = example().program();
  EXPECT_FALSE(describe_place(program, 0).waits);
  EXPECT_FALSE(describe_place(program, 1).waits);
  EXPECT_TRUE(describe_place(program, 2).waits);
  EXPECT_TRUE(describe_place(program, 3).waits);
}

TEST(Describe, a_rank_is_named_with_its_coordinates) {
  program::Program program = example().program();
  EXPECT_EQ(describe_rank(program), "rank 3 (y 1, x 1)");
  program.meshes[0].ranks = {Rank(0)};
  EXPECT_EQ(describe_rank(program), "rank 3");
}

TEST(ProgramGroups, are_one_for_each_stream_and_members_with_the_largest_size) {
  const auto specs = groups_of(example().bundle());
  ASSERT_EQ(specs.size(), 1U);
  EXPECT_EQ(specs[0].name, "x");
  EXPECT_EQ(specs[0].members, (std::vector<Rank>{Rank(2), Rank(3)}));
  EXPECT_EQ(specs[0].largest_bytes, 16);
}

TEST(ProgramGroups, a_collective_of_one_member_needs_nobody) {
  const program::Program program = example().program();
  EXPECT_FALSE(communicates(program, program.instructions[0]));
  EXPECT_TRUE(communicates(program, program.instructions[3]));
  EXPECT_FALSE(communicates(program, program.instructions[5]));
}

}  // namespace
}  // namespace fourfold::run
