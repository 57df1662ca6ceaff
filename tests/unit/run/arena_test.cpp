#include "run/arena.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace fourfold::run {
namespace {

using program::Region;

TEST(Arena, regions_begin_on_pages_hold_zeros_and_do_not_overlap) {
  const Arena arena(5000, 10);
  const auto persistent = arena.region(Region::persistent);
  const auto transient = arena.region(Region::transient);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(persistent.data()) % Arena::page_bytes, 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(transient.data()) % Arena::page_bytes, 0);
  EXPECT_EQ(persistent.size(), 8192);
  EXPECT_EQ(transient.size(), 4096);
  EXPECT_GE(transient.data(), persistent.data() + 8192);
  for (const std::byte byte : persistent) ASSERT_EQ(byte, std::byte{0});
}

TEST(Arena, a_buffer_with_two_copies_has_one_for_each_parity) {
  const Arena arena(4096, 4096);
  program::Buffer buffer;
  buffer.name = "step";
  buffer.region = Region::transient;
  buffer.offset_bytes = 128;
  buffer.size_bytes = 64;
  EXPECT_EQ(arena.bytes(buffer, 1).data(), arena.bytes(buffer, 0).data());
  buffer.two_by_parity = true;
  EXPECT_EQ(arena.bytes(buffer, 0).data(), arena.region(Region::transient).data() + 128);
  EXPECT_EQ(arena.bytes(buffer, 1).data(), arena.bytes(buffer, 0).data() + 64);
  EXPECT_EQ(arena.bytes(buffer, 1).size(), 64);
}

TEST(Arena, a_buffer_outside_its_region_is_refused) {
  const Arena arena(4096, 0);
  program::Buffer buffer;
  buffer.region = Region::persistent;
  buffer.offset_bytes = 4090;
  buffer.size_bytes = 8;
  EXPECT_THROW(arena.bytes(buffer, 0), InternalError);
}

TEST(Arena, pages_written_since_the_painting_are_told_apart) {
  Arena arena(4 * 4096, 2 * 4096);
  arena.paint();
  EXPECT_EQ(arena.pages(Region::persistent).untouched, 4);
  arena.region(Region::persistent)[4096] = std::byte{1};
  arena.region(Region::persistent)[3 * 4096 - 1] = std::byte{1};
  arena.region(Region::transient)[0] = std::byte{1};
  EXPECT_EQ(arena.pages(Region::persistent).total, 4);
  EXPECT_EQ(arena.pages(Region::persistent).untouched, 2);
  EXPECT_EQ(arena.pages(Region::transient).untouched, 1);
}

TEST(Arena, paint_reads_as_nan_in_both_float_types) {
  Arena arena(4096, 0);
  arena.paint();
  float single = 0;
  double wide = 0;
  std::memcpy(&single, arena.region(Region::persistent).data() + 4, sizeof single);
  std::memcpy(&wide, arena.region(Region::persistent).data() + 8, sizeof wide);
  EXPECT_TRUE(std::isnan(single));
  EXPECT_TRUE(std::isnan(wide));
}

TEST(Arena, memory_that_the_system_does_not_have_is_a_user_error) {
  try {
    const Arena arena(std::int64_t{1} << 50, 0);
    FAIL() << "a pebibyte was granted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_memory);
  }
}

}  // namespace
}  // namespace fourfold::run
