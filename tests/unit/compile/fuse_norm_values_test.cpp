// What norms over groups of channels make once, and what their chains make twice: in which
// programs, and that nothing else changes.
#include "compile/fuse_norm_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernels/norm_chains.h"
#include "unit/compile/program_edits.h"

namespace fourfold::compile::fuse_norm_values_test {
namespace {

using program::Compute;
using program::Program;
using program::Slice;

/// The step of a U-Net whose backward pass computes norms again, each row by itself.
Program step_of(double dropout, bool scale_shift = true) {
  GridSetup setup = small_unet({});
  setup.unet->dropout = dropout;
  setup.unet->scale_shift_norm = scale_shift;
  machine::Target target = GridSetup::target();
  target.repeated = {kernels::repeated_norm_rows.begin(), kernels::repeated_norm_rows.end()};
  target.repeated_for = {kernels::readers_of_repeated_norms.begin(),
                         kernels::readers_of_repeated_norms.end()};
  return bundle_for(setup, target).at(op::ProgramKind::train);
}

const Compute& at(const Program& program, std::size_t place) {
  return std::get<Compute>(program.instructions[place].what);
}

/// By tensor: how often a step of one micro-batch takes its moments.
std::map<std::string, std::size_t> moments_by_tensor(const Program& program) {
  std::map<std::string, std::size_t> count;
  for (const std::size_t place : places_of<op::GroupNormMoments>(program))
    ++count[program.buffer(at(program, place).slices[0].buffer).name];
  return count;
}

TEST(FuseNormValues, moments_of_a_skip_connection_are_taken_once) {
  const Program before = step_of(0.1), after = share_moments(before);
  constexpr std::size_t micros = 3;
  std::size_t twice = 0;
  for (const auto& [tensor, times] : moments_by_tensor(before)) twice += times / micros - 1;
  EXPECT_GE(twice, 2U);
  for (const auto& [tensor, times] : moments_by_tensor(after)) EXPECT_EQ(times, micros) << tensor;
  EXPECT_EQ(after.instructions.size(), before.instructions.size() - micros * twice);
  EXPECT_EQ(after.tasks.back().end, after.instructions.size());
  EXPECT_EQ(share_moments(after), after);
}

TEST(FuseNormValues, moments_that_do_not_lie_there_any_more_are_taken_again) {
  Program program = step_of(0.1);
  const std::vector<std::size_t> places = places_of<op::GroupNormMoments>(program);
  const auto x = [&](std::size_t place) { return at(program, place).slices[0]; };
  // The first two that read one tensor, and somebody who writes over what the first has made.
  for (const std::size_t first : places) {
    const auto again = std::ranges::find_if(
        places, [&](std::size_t other) { return other > first && x(other) == x(first); });
    if (again == places.end()) continue;
    const Program shared = share_moments(program);
    insert_fill(program, *again + 1, at(program, first).slices[1]);
    const Program kept = share_moments(program);
    EXPECT_EQ(places_of<op::GroupNormMoments>(kept).size(),
              places_of<op::GroupNormMoments>(shared).size() + 1);
    return;
  }
  FAIL() << "no tensor has its moments taken twice";
}

TEST(FuseNormValues, the_gradient_of_y_is_made_for_both_readers_where_no_dropout_is_before_it) {
  for (const bool scale_shift : {true, false}) {
    const Program before = step_of(0.1, scale_shift), after = repeat_silu_gradients(before);
    const std::size_t dropped = places_of<op::Dropout>(before).size() / 2,
                      of_norms = places_of<op::GroupNormApplyGradient>(before).size();
    const std::vector<std::size_t> were = places_of<op::SiluGradient>(before),
                                   are = places_of<op::SiluGradient>(after);
    const std::size_t added = are.size() - were.size();
    EXPECT_GT(added, of_norms / 3);
    EXPECT_LE(added + dropped, of_norms);
    EXPECT_EQ(after.instructions.size(), before.instructions.size() + 2 * added);
    EXPECT_EQ(after.tasks.size(), before.tasks.size());
    EXPECT_EQ(after.tasks.back().end, after.instructions.size());
    // Right before its only reader stands the gradient, and before it the norm.
    std::size_t repeated = 0;
    for (const std::size_t place : places_of<op::GroupNormApplyGradient>(after)) {
      const Slice y_grad = at(after, place).slices[2];
      if (!after.buffer(y_grad.buffer).name.ends_with("/repeated")) continue;
      ++repeated;
      ASSERT_TRUE(at(after, place - 1).op.is<op::SiluGradient>());
      EXPECT_EQ(at(after, place - 1).slices[2], y_grad);
      ASSERT_TRUE(at(after, place - 2).op.is<op::GroupNormApply>());
      EXPECT_EQ(at(after, place - 2).slices[4], at(after, place - 1).slices[0]);
    }
    EXPECT_EQ(repeated, added);
  }
}

TEST(FuseNormValues, a_gradient_whose_operands_are_overwritten_is_not_made_again) {
  Program program = step_of(0);
  const std::size_t added = places_of<op::SiluGradient>(repeat_silu_gradients(program)).size() -
                            places_of<op::SiluGradient>(program).size();
  for (const std::size_t place : places_of<op::GroupNormApplyGradient>(program)) {
    const std::vector<std::size_t> silus = places_of<op::SiluGradient>(program);
    const auto silu = std::ranges::find_if(silus, [&](std::size_t one) {
      return one < place && at(program, one).slices[2] == at(program, place).slices[2];
    });
    if (silu == silus.end()) continue;
    insert_fill(program, place, at(program, *silu).slices[1]);
    EXPECT_EQ(places_of<op::SiluGradient>(repeat_silu_gradients(program)).size() -
                  places_of<op::SiluGradient>(program).size(),
              added - 1);
    return;
  }
  FAIL() << "no norm has a SiLU after it";
}

}  // namespace
}  // namespace fourfold::compile::fuse_norm_values_test
