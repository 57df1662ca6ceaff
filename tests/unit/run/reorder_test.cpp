#include "run/reorder.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

/// A program whose buffer 0 is a local (2, 7, 3) tensor in `shares` blocks of dim 1.
program::Program blocked_program(std::int64_t shares, std::int64_t share) {
  Handmade made(op::ProgramKind::train);
  made.buffer("b", DType::i32, {2, shares * share, 3}, program::Region::transient);
  program::Program& program = made.edit();
  program.meshes[0].axes = {{"x", shares}};
  program.meshes[0].ranks = Ranks(Rank(0), static_cast<std::size_t>(shares));
  program.buffers[0].global = {2, 7, 3};
  program.buffers[0].blocked = program::Blocked{1, AxisId(0), share};
  return made.program();
}

class Parts : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};

TEST_P(Parts, pack_puts_every_element_into_its_block_and_unpack_brings_it_back) {
  const auto [shares, share] = GetParam();
  const program::Program program = blocked_program(shares, share);
  const Reorder order = reorder_of(program, program.buffers[0]);
  std::vector<std::int32_t> plain(2 * 7 * 3), back(plain.size(), -1);
  std::iota(plain.begin(), plain.end(), 1);
  std::vector<std::int32_t> blocked(static_cast<std::size_t>(shares * 2 * share * 3), -1);
  ASSERT_EQ(order.plain_bytes(), static_cast<std::int64_t>(plain.size() * 4));
  ASSERT_EQ(order.blocked_bytes(), static_cast<std::int64_t>(blocked.size() * 4));
  const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  pack(order, bytes(plain), bytes(blocked), 1);
  std::size_t at = 0;
  for (std::int64_t p = 0; p < shares; ++p)
    for (std::int64_t outer = 0; outer < 2; ++outer)
      for (std::int64_t i = 0; i < share; ++i)
        for (std::int64_t inner = 0; inner < 3; ++inner) {
          const std::int64_t index = p * share + i;
          const std::int64_t expected = index < 7 ? 1 + (outer * 7 + index) * 3 + inner : 0;
          EXPECT_EQ(blocked[at++], expected) << "part " << p << " index " << i;
        }
  unpack(order, bytes(blocked), bytes(back), 1);
  EXPECT_EQ(back, plain);
}
// Whole shares, one padded share, shares that are padding altogether, one share.
INSTANTIATE_TEST_SUITE_P(Reorder, Parts,
                         testing::Values(std::pair{7, 1}, std::pair{2, 4}, std::pair{3, 3},
                                         std::pair{5, 2}, std::pair{4, 4}, std::pair{1, 7}),
                         [](const auto& sizes) {
                           return std::to_string(sizes.param.first) + "_shares_of_" +
                                  std::to_string(sizes.param.second);
                         });

TEST(Reorder, threads_change_nothing) {
  Handmade made(op::ProgramKind::train);
  made.buffer("b", DType::f32, {64, 300, 32}, program::Region::transient);
  program::Program& program = made.edit();
  program.meshes[0].axes = {{"x", 4}};
  program.meshes[0].ranks = Ranks(Rank(0), 4);
  program.buffers[0].blocked = program::Blocked{1, AxisId(0), 75};
  const Reorder order = reorder_of(program, program.buffers[0]);
  std::vector<std::byte> plain(static_cast<std::size_t>(order.plain_bytes()));
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * 31 >> 3);
  std::vector<std::byte> one(plain.size()), two(plain.size()), back(plain.size());
  pack(order, plain.data(), one.data(), 1);
  pack(order, plain.data(), two.data(), 2);
  EXPECT_EQ(one, two);
  unpack(order, two.data(), back.data(), 2);
  EXPECT_EQ(back, plain);
}

TEST(Reorder, parts_too_small_for_the_dim_are_refused) {
  const program::Program program = blocked_program(2, 3);
  EXPECT_THROW(reorder_of(program, program.buffers[0]), InternalError);
}

}  // namespace
}  // namespace fourfold::run
