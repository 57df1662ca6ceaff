// Uses of buffers in a program of which instructions are joined: what replacing them costs.
#include "compile/uses.h"

#include <gtest/gtest.h>

#include "base/format.h"

namespace fourfold::compile {
namespace {

using program::Slice;

constexpr std::int64_t bytes = 64;

Slice whole(std::size_t buffer) {
  return {program::BufferId(buffer), 0, 1, bytes, 0};
}

program::Instruction gelu(std::size_t from, std::size_t to) {
  return {program::StreamId(std::size_t{0}),
          program::Compute{op::Gelu{}, DType::f32, {whole(from), whole(to)}, std::nullopt, {}}};
}

program::Instruction add(std::size_t a, std::size_t b, std::size_t to) {
  return {
      program::StreamId(std::size_t{0}),
      program::Compute{op::Add{}, DType::f32, {whole(a), whole(b), whole(to)}, std::nullopt, {}}};
}

/// For each micro-batch a task: weight -> value, value + weight -> result. All use one weight, one
/// value and one result.
program::Program many_micro_batches(std::size_t micros) {
  program::Program program;
  program.streams = {"math"};
  for (const char* name : {"weight", "value", "result"}) {
    program::Buffer buffer;
    buffer.name = name;
    buffer.size_bytes = bytes;
    buffer.role = program::BufferRole::activation;
    buffer.region = program::Region::transient;
    program.buffers.push_back(buffer);
  }
  for (std::size_t micro = 0; micro < micros; ++micro) {
    program::Task task;
    task.begin = program.instructions.size();
    program.instructions.push_back(gelu(0, 1));
    program.instructions.push_back(add(1, 0, 2));
    task.end = program.instructions.size();
    program.tasks.push_back(task);
  }
  return program;
}

struct Joined {
  program::Program program;
  std::size_t num_moved = 0;
};

/// Joins both instructions of each task to one that adds the weight to itself.
Joined join_all(std::size_t micros) {
  Joined joined{many_micro_batches(micros)};
  Uses uses(joined.program);
  for (std::size_t micro = 0; micro < micros; ++micro) {
    const std::size_t first = 2 * micro, second = first + 1;
    EXPECT_EQ(uses.writer(whole(1), second), first);
    EXPECT_EQ(uses.of_value(whole(1), first), std::vector{second});
    EXPECT_TRUE(uses.is_kept(whole(1), first, second));
    EXPECT_TRUE(uses.is_kept(whole(2), first, second));
    EXPECT_FALSE(uses.is_kept(whole(2), first, second + 1)) << "the second one writes it";
    EXPECT_TRUE(uses.may_move({first, second}, second));
    uses.replace({first, second}, second, std::get<program::Compute>(add(0, 0, 2).what));
    EXPECT_TRUE(uses.is_gone(first));
    EXPECT_TRUE(uses.of_value(whole(1), first).empty());
    EXPECT_EQ(uses.writer(whole(2), second), std::nullopt) << "it does not write before itself";
  }
  joined.num_moved = uses.num_moved();
  uses.finish();
  return joined;
}

TEST(Uses, of_what_is_joined_are_gone_and_the_rest_stays_in_order) {
  const program::Program program = join_all(3).program;
  ASSERT_EQ(program.instructions.size(), 3U);
  ASSERT_EQ(program.buffers.size(), 2U) << "nothing touches the value any more";
  EXPECT_EQ(program.buffers[1].name, "result");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(program.instructions[i], add(0, 0, 1));
    EXPECT_EQ(program.tasks[i].begin, i);
    EXPECT_EQ(program.tasks[i].end, i + 1);
  }
}

TEST(Uses, that_are_replaced_move_no_others_however_often_a_buffer_is_used) {
  const std::size_t few = join_all(50).num_moved;
  EXPECT_LE(join_all(5000).num_moved, 100 * few);
}

}  // namespace
}  // namespace fourfold::compile
