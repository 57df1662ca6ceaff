#include "config/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/random.h"

namespace fourfold::config {
namespace {

TEST(Number, integers_are_read_exactly_up_to_64_bits) {
  EXPECT_EQ(std::get<std::int64_t>(read_integer("9223372036854775807")),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(std::get<std::int64_t>(read_integer("9.223372036854775807e18")),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(std::get<std::int64_t>(read_integer("-12k")), -12000);
  EXPECT_EQ(std::get<std::int64_t>(read_integer("+0.000_5M")), 500);
  EXPECT_TRUE(std::holds_alternative<Refusal>(read_integer("9223372036854775808")));
}

TEST(Number, doubles_print_and_read_back_to_the_same_bits) {
  const Random random(2, random_stream("number"));
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const double value = random.normal(i, 0) * std::pow(10, 600 * random.uniform(i, 1) - 300);
    const auto read = read_number(format_number(value));
    ASSERT_TRUE(std::holds_alternative<double>(read)) << format_number(value);
    ASSERT_EQ(std::get<double>(read), value);
  }
}

TEST(Number, numbers_print_as_people_write_them) {
  EXPECT_EQ(format_number(4096), "4096");
  EXPECT_EQ(format_number(4294967295.0), "4294967295");
  EXPECT_EQ(format_number(0.001), "0.001");
  EXPECT_EQ(format_number(1e-5), "1e-05");
  EXPECT_EQ(format_number(0), "0");
}

TEST(Number, what_is_no_number_is_refused) {
  for (const std::string text :
       {"", "-", "+", ".", "e5", "_1", "1_", "1__0", "--1", "1e+", "k", "1 0", "NaN", "-inf"}) {
    EXPECT_TRUE(std::holds_alternative<Refusal>(read_integer(text))) << text;
    EXPECT_TRUE(std::holds_alternative<Refusal>(read_number(text))) << text;
  }
}

}  // namespace
}  // namespace fourfold::config
