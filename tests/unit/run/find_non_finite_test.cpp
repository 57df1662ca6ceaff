#include "run/find_non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "run/cpu.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

/// A step in small: x = 1, y = x + weight, norm = |y|^2, the update decides on the norm, `updates`
/// counts it.
struct Step {
  Handmade made{op::ProgramKind::train};
  std::size_t fill, add, norm, control, count;

  /// With padding alone, its rank looks for the largest of no logits first.
  explicit Step(bool has_padding_alone = false) {
    if (has_padding_alone) {
      const auto logits = made.buffer("logits", DType::f32, {1, 2}, Handmade::Region::transient),
                 largest = made.floats("largest", 1);
      const program::Slice row = made.whole(logits);
      made.compute(op::Fill{1, {1, 2}}, {row});
      made.compute(op::LogitMax{.first_column = 4, .columns = 4}, {row, made.whole(largest)});
    }
    const auto step = made.step_block(), result = made.result_block();
    const auto weight = made.buffer("weight", DType::f32, {4}, Handmade::Region::persistent,
                                    Handmade::Role::parameter);
    made.buffer("weight.m", DType::f32, {4}, Handmade::Region::persistent, Handmade::Role::moment);
    const auto updates = made.buffer("updates", DType::i64, {}, Handmade::Region::persistent,
                                     Handmade::Role::counter);
    const auto x = made.floats("x", 4), y = made.floats("y", 4);
    const auto in = [&](const char* name) { return Handmade::field(step, name); };
    const auto out = [&](const char* name) { return Handmade::field(result, name); };
    fill = made.compute(op::Fill{1, {4}}, {made.whole(x)});
    add = made.compute(op::Add{}, {made.whole(x), made.whole(weight), made.whole(y)});
    norm = made.compute(op::SquaredNorm{}, {made.whole(y), out("result.squared_norm")});
    made.compute(op::Vote{},
                 {in("step.vote"), out("result.squared_norm"), out("result.loss_sum"),
                  in("step.step"), out("result.non_finite"), in("step.lr"), out("result.votes")});
    control = made.compute(op::UpdateControl{1, 0},
                           {out("result.squared_norm"), in("step.step"), out("result.votes"),
                            out("result.grad_norm"), out("result.scale"), out("result.applied")});
    count = made.compute(op::CountUpdate{}, {out("result.applied"), made.whole(updates)});
  }
};

class FindNonFinite : public ::testing::Test {
 protected:
  Step step_;
  const program::Bundle bundle_ = step_.made.bundle();
  CpuBackend backend_;
  Executor executor_{bundle_, backend_};
  const op::StepBlock block_{.step = 5, .lr = 0.1};

  std::span<float> floats(const char* name) {
    return as<float>(executor_.bytes(op::ProgramKind::train, name));
  }
  std::int64_t updates() {
    return as<std::int64_t>(executor_.bytes(op::ProgramKind::train, "updates"))[0];
  }
};

TEST_F(FindNonFinite, nothing_is_found_in_a_sound_step_and_no_update_is_made) {
  EXPECT_FALSE(find_non_finite(executor_, op::ProgramKind::train, block_).has_value());
  EXPECT_EQ(updates(), 0) << "the search itself must not apply the update";
  executor_.run(op::ProgramKind::train, block_);
  EXPECT_EQ(updates(), 1);
}

TEST_F(FindNonFinite, the_first_instruction_that_wrote_one_is_named_with_buffer_and_element) {
  backend_.inject({op::ProgramKind::train, step_.add, 0, 2});
  EXPECT_EQ(executor_.run(op::ProgramKind::train, block_).applied, 0);
  const auto found = find_non_finite(executor_, op::ProgramKind::train, block_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->instruction, step_.add);
  EXPECT_EQ(found->buffer, "y");
  EXPECT_EQ(found->element, 2);
  EXPECT_TRUE(std::isnan(found->value));
  EXPECT_EQ(found->text(), "add (instruction 1) wrote NaN into element 2 of y");
  EXPECT_EQ(updates(), 0);
}

TEST(FindNonFiniteInPadding, the_largest_of_no_logits_is_no_fault) {
  Step step(true);
  const program::Bundle bundle = step.made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  backend.inject({op::ProgramKind::train, step.add, 0, 2});
  const op::StepBlock block{.step = 5, .lr = 0.1};
  EXPECT_EQ(executor.run(op::ProgramKind::train, block).applied, 0);
  EXPECT_TRUE(std::isinf(as<float>(executor.bytes(op::ProgramKind::train, "largest"))[0]));
  const auto found = find_non_finite(executor, op::ProgramKind::train, block);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text(), "add (instruction 3) wrote NaN into element 2 of y");
}

TEST_F(FindNonFinite, a_bad_value_in_the_state_is_named_before_any_instruction) {
  floats("weight.m")[3] = -std::numeric_limits<float>::infinity();
  floats("weight.m")[1] = -std::numeric_limits<float>::infinity();
  const auto found = find_non_finite(executor_, op::ProgramKind::train, block_);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->instruction.has_value());
  EXPECT_EQ(found->text(),
            "element 1 of weight.m was -infinity before the step, the first of 2 such");
}

TEST_F(FindNonFinite, a_bad_learning_rate_is_named_first) {
  floats("weight")[0] = std::numeric_limits<float>::quiet_NaN();
  const auto found = find_non_finite(executor_, op::ProgramKind::train,
                                     {.step = 5, .lr = std::numeric_limits<double>::quiet_NaN()});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text(), "step.lr was NaN before the step");
}

TEST_F(FindNonFinite, a_field_of_the_result_block_is_named_as_such) {
  backend_.inject({op::ProgramKind::train, step_.norm, 0, 0});
  const auto found = find_non_finite(executor_, op::ProgramKind::train, block_);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text(), "squared_norm (instruction 2) wrote NaN into result.squared_norm");
}

}  // namespace
}  // namespace fourfold::run
