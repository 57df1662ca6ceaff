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

TEST(Units, a_size_is_written_so_that_it_is_read_back) {
  EXPECT_EQ(exact_bytes(0), "0");
  EXPECT_EQ(exact_bytes(std::int64_t{4} << 20), "4MiB");
  EXPECT_EQ(exact_bytes(std::int64_t{3} << 30), "3GiB");
  EXPECT_EQ(exact_bytes(1536), "1536B");
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1} << 10, std::int64_t{5} << 19,
                                   std::int64_t{1} << 62, std::int64_t{9223372036854775807}})
    EXPECT_EQ(parse_bytes(exact_bytes(bytes)), bytes) << bytes;
}

}  // namespace
}  // namespace fourfold
