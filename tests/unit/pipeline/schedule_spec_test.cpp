#include "pipeline/schedule_spec.h"

#include <gtest/gtest.h>

namespace fourfold::pipeline {
namespace {

TEST(WeightDelays, are_read_and_written) {
  for (const char* text : {"none", "auto", "0", "12"})
    EXPECT_EQ(to_string(weight_delay_from(text).value()), text);
  for (const char* text : {"", "-1", "1x", "Auto", "1.5"})
    EXPECT_EQ(weight_delay_from(text), std::nullopt) << text;
}

TEST(CapOf, bytes_is_how_many_whole_micro_batches_fit) {
  EXPECT_EQ(cap_of(100, 30), 3);
  EXPECT_EQ(cap_of(29, 30), 0);
  EXPECT_EQ(cap_of(-1, 30), 0);
  EXPECT_EQ(cap_of(100, 0), std::nullopt);
}

}  // namespace
}  // namespace fourfold::pipeline
