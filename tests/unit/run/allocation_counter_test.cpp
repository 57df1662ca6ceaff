#include "unit/run/allocation_counter.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <thread>

#include "base/format.h"

namespace fourfold {
namespace {

TEST(AllocationCounter, our_own_allocations_are_counted_and_the_first_is_located) {
  AllocationCounter counter;
  ::operator delete(::operator new(10));
  ::operator delete(::operator new(10, std::align_val_t{64}), std::align_val_t{64});
  const Allocations allocations = counter.stop();
  EXPECT_EQ(allocations.own, 2);
  EXPECT_NE(allocations.first_own.find("test_unit_run+0x"), std::string::npos)
      << allocations.first_own;
}

TEST(AllocationCounter, what_the_standard_library_allocates_for_us_is_our_own) {
  std::string text(1, 'a');
  AllocationCounter counter;
  text.reserve(1000);  // compiled into libstdc++
  EXPECT_EQ(counter.stop().own, 1);
}

TEST(AllocationCounter, what_another_library_allocates_is_told_apart) {
  AllocationCounter counter;
  const std::string text = format("{:>100}", 1);  // libfmt makes the string
  const Allocations allocations = counter.stop();
  EXPECT_EQ(allocations.own, 0) << allocations.first_own;
  EXPECT_EQ(allocations.third_party, 1);
}

TEST(AllocationCounter, other_threads_count_and_what_came_before_or_after_does_not) {
  std::string before(1000, 'a');
  std::int64_t counted = -1;
  std::thread thread([&] {
    AllocationCounter counter;
    ::operator delete(::operator new(10));
    counted = counter.stop().own;
  });
  thread.join();
  before.append(1000, 'b');
  EXPECT_EQ(counted, 1);
}

}  // namespace
}  // namespace fourfold
