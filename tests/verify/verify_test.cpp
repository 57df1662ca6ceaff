// Sound programs are found sound.
#include <gtest/gtest.h>

#include "program/examples.h"
#include "verify/faults.h"
#include "verify/long_program.h"

namespace fourfold::verify {
namespace {

TEST(Verify, the_tiny_train_program_is_sound) {
  EXPECT_EQ(all(verify(tiny_train(2))), "");
}
TEST(Verify, many_micro_batches_are_sound) {
  EXPECT_EQ(all(verify(tiny_train(5))), "");
}
TEST(Verify, the_tiny_init_program_is_sound) {
  EXPECT_EQ(all(verify(tiny_init())), "");
}
TEST(Verify, the_tiny_evaluate_program_is_sound) {
  EXPECT_EQ(all(verify(tiny_evaluate())), "");
}
TEST(Verify, the_sharded_train_program_is_sound) {
  EXPECT_EQ(all(verify(sharded_train())), "");
}
TEST(Verify, the_tiny_bundle_is_sound) {
  EXPECT_EQ(all(verify(tiny_bundle())), "");
}

TEST(Verify, axes_of_size_one_need_no_reduction) {
  Program program = tiny_train();
  for (const std::string_view name :
       {"tokens", "labels", "x", "h", "mean", "rstd", "u", "a", "d", "y", "y_grad", "a_grad",
        "h_grad", "logits", "token_loss", "lse"}) {
    Buffer& buffer = buffer_named(program, name);
    buffer.sharding.dims.resize(buffer.global.rank());
    buffer.sharding.dims[0] = {{AxisId(0), {}}};
  }
  EXPECT_EQ(all(verify(program)), "");
}

TEST(Verify, an_empty_program_is_sound) {
  EXPECT_EQ(all(verify(Program{})), "");
}

TEST(Verify, a_zeroed_accumulator_takes_partial_sums) {
  const Mesh mesh{"main", {{"z", 2}}, {Rank(0), Rank(1)}};
  Builder b(op::ProgramKind::train, Rank(0), mesh, {"math", "z"});
  b.group({"z"});
  b.buffer("x", {4, 8}, {BufferRole::activation, DType::f32}, {"z", ""});
  b.buffer("sum", {8}, {BufferRole::output, DType::f32});
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {2, 8}}, {"x"});
  b.op("math", op::Fill{0, {8}}, {"sum"});
  b.op("math", op::BiasGradient{1, true}, {"x", "sum"});
  b.order("math", "z");
  b.all_reduce("z", "sum");
  Program program = b.finish();
  EXPECT_EQ(all(verify(program)), "");
  std::get<Compute>(program.instructions[1].what).op.get<op::Fill>().value = 1;
  EXPECT_EQ(verify(program).front().rule, "state");
}

/// VerifyPromise has how long fifty thousand instructions take.
TEST(Verify, a_race_deep_in_a_long_program_is_found) {
  Program program = long_program(1600);
  ASSERT_GE(program.instructions.size(), 10000U);
  EXPECT_EQ(all(verify(program)), "");
  erase_instruction(program, find_instruction(program, "wait", 1800));
  EXPECT_EQ(verify(program).front().rule, "race");
}

}  // namespace
}  // namespace fourfold::verify
