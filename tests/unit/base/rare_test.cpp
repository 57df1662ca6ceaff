// Optional values that are seldom there.
#include "base/rare.h"

#include <gtest/gtest.h>

#include <string>

namespace fourfold {
namespace {

static_assert(sizeof(Rare<std::string>) == sizeof(void*));

TEST(Rare, copies_are_values_of_their_own) {
  Rare<std::string> one("a");
  Rare<std::string> other = one;
  *other += "b";
  EXPECT_EQ(*one, "a");
  EXPECT_EQ(*other, "ab");
  one = other;
  EXPECT_EQ(one, other);
  one = std::nullopt;
  EXPECT_EQ(*other, "ab");
}

TEST(Rare, equals_what_has_an_equal_value_or_like_it_none) {
  const Rare<std::string> none, also_none = std::nullopt, empty(""), a("a"), also_a("a");
  EXPECT_FALSE(none);
  EXPECT_TRUE(empty);
  EXPECT_EQ(none, also_none);
  EXPECT_EQ(a, also_a);
  EXPECT_NE(none, empty);
  EXPECT_NE(empty, a);
}

TEST(Rare, can_be_assigned_to_itself) {
  Rare<std::string> one("a");
  const Rare<std::string>& same = one;
  one = same;
  EXPECT_EQ(*one, "a");
}

}  // namespace
}  // namespace fourfold
