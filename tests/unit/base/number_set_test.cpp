#include "base/number_set.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_set>

namespace fourfold {
namespace {

TEST(NumberSet, has_each_number_once) {
  NumberSet set;
  std::unordered_set<std::uint64_t> plain;
  std::mt19937_64 random(3);
  for (int i = 0; i < 50'000; ++i) {
    // Zero, numbers that come again, and some that meet at one place.
    const std::uint64_t number = random() % 20'000 * (i % 5 == 0 ? 1024 : 1);
    ASSERT_EQ(set.insert(number), plain.insert(number).second) << number;
  }
}

}  // namespace
}  // namespace fourfold
