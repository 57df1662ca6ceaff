#include "measure/step_calls.h"

#include <gtest/gtest.h>

namespace fourfold::measure {
namespace {

TEST(StepCalls, a_share_is_at_most_100_percent_or_says_that_it_is_more) {
  EXPECT_EQ(share_of(0, 8), "0%");
  EXPECT_EQ(share_of(2, 8), "25%");
  EXPECT_EQ(share_of(8, 8), "100%");
  EXPECT_EQ(share_of(8.001, 8), ">100%");
  EXPECT_EQ(share_of(80, 8), ">100%");
  EXPECT_EQ(share_of(8, 0), "-");
}

}  // namespace
}  // namespace fourfold::measure
