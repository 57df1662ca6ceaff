#include "base/units.h"

#include <gtest/gtest.h>

namespace fourfold {
namespace {

TEST(Units, a_size_is_read_in_decimal_and_binary_units) {
  EXPECT_EQ(parse_bytes("1000000"), 1'000'000);
  EXPECT_EQ(parse_bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_bytes("500mb"), 500'000'000);
  EXPECT_EQ(parse_bytes("2GiB"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("0"), 0);
  for (const char* text :
       {"", "GB", "-1", "1.5GB", "5 GB", "5TB", "9223372036854775808", "9223372036854775807KB"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

}  // namespace
}  // namespace fourfold
