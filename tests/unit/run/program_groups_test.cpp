#include "run/program_groups.h"

#include <gtest/gtest.h>

#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

TEST(ProgramGroups, memory_of_the_host_is_that_of_the_largest_collectives_and_messages) {
  Handmade made(op::ProgramKind::train);
  program::Program& program = made.edit();
  program.world = 2;
  program.meshes = {{"all", {{"data", 2}}, {Rank(0), Rank(1)}}};
  program.groups = {{"data", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}},
                    {"alone", MeshId(0), {AxisId(0)}, {Rank(0)}}};
  const auto small = made.floats("small", 4), large = made.floats("large", 8);
  const program::GroupId data(0), alone(1);
  EXPECT_EQ(staged_bytes(made.bundle()), 0);
  // Nobody else is in it.
  made.add("x", program::AllGather{alone, {made.whole(small)}, {made.whole(large)}});
  EXPECT_EQ(staged_bytes(made.bundle()), 0);
  // Both sides of the larger one: 32 bytes each, as the smaller side is counted like the larger.
  made.add("data", program::AllGather{data, {made.whole(small)}, {made.whole(large)}});
  made.add("data", program::AllReduce{data, Reduction::sum, {made.whole(small)}});
  EXPECT_EQ(staged_bytes(made.bundle()), 64);
  // Messages of one stream come one after another, those of two at a time.
  made.add("to", program::Send{Rank(1), 0, made.whole(small)});
  made.add("to", program::Send{Rank(1), 0, made.whole(large)});
  made.add("from", program::Recv{Rank(1), 1, made.whole(small)});
  EXPECT_EQ(staged_bytes(made.bundle()), 64 + 32 + 16);
}

}  // namespace
}  // namespace fourfold::run
