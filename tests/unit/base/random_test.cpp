#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace fourfold {
namespace {

TEST(Philox, gives_the_known_answers_of_its_authors) {
  // kat_vectors of Random123, philox4x32 10.
  EXPECT_EQ(Philox::words({0, 0, 0, 0}, {0, 0}),
            (Philox::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      Philox::words({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (Philox::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      Philox::words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Philox::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, depends_on_seed_stream_element_step_and_draw_and_on_nothing_else) {
  const Random random(1, random_stream("a"));
  const auto value = random.words(2, 3, 4);
  EXPECT_EQ(Random(1, random_stream("a")).words(2, 3, 4), value);
  EXPECT_NE(Random(2, random_stream("a")).words(2, 3, 4), value);
  EXPECT_NE(Random(1, random_stream("b")).words(2, 3, 4), value);
  EXPECT_NE(random.words(1, 3, 4), value);
  EXPECT_NE(random.words(2 + (std::uint64_t{1} << 32), 3, 4), value);
  EXPECT_NE(random.words(2, 2, 4), value);
  EXPECT_NE(random.words(2, 3, 5), value);
}

TEST(Random, uniform_numbers_fill_the_unit_interval_evenly) {
  const Random random(7, random_stream("uniform"));
  constexpr int count = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i), 0);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  // Five standard errors of mean (sqrt(1/12n)) and of second moment (sqrt(4/45n)).
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
}

TEST(Random, normal_numbers_have_mean_variance_and_kurtosis_of_the_normal_law) {
  const Random random(7, random_stream("normal"));
  constexpr int count = 100000;
  double moments[5] = {};
  for (int i = 0; i < count; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i), 0);
    double power = 1;
    for (double& moment : moments) moment += power / count, power *= x;
  }
  // Five standard errors: variances of x, x^2, x^3 and x^4 are 1, 2, 15 and 96.
  EXPECT_NEAR(moments[1], 0, 5 * std::sqrt(1.0 / count));
  EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2.0 / count));
  EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15.0 / count));
  EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96.0 / count));
}

TEST(Random, below_stays_below_its_bound_and_reaches_every_value) {
  const Random random(3, random_stream("below"));
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto value = random.below(10, i, 0);
    ASSERT_LT(value, 10U);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 10U);
}

}  // namespace
}  // namespace fourfold
