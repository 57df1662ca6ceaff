// Arithmetic modulo 2^61 - 1, and the functions that depend on keys.
#include "op/residues.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "op/residue_loops.h"

namespace fourfold::op {
namespace {

/// Residues at both ends of the range, and others.
std::vector<Residue> some_residues() {
  std::vector<Residue> list = {
      0, 1, 2, 3, residue_prime - 1, residue_prime - 2, residue_prime / 2, residue_prime / 2 + 1};
  std::mt19937_64 random(1);
  while (list.size() < 40) list.push_back(random() % residue_prime);
  return list;
}

Residue by_remainder(unsigned __int128 value) {
  return static_cast<Residue>(value % residue_prime);
}

TEST(Residues, sums_and_products_are_those_of_remainders) {
  for (const Residue a : some_residues())
    for (const Residue b : some_residues()) {
      using Wide = unsigned __int128;
      EXPECT_EQ(add(a, b), by_remainder(static_cast<Wide>(a) + b));
      EXPECT_EQ(subtract(a, b), by_remainder(static_cast<Wide>(a) + residue_prime - b));
      EXPECT_EQ(multiply(a, b), by_remainder(static_cast<Wide>(a) * b));
      EXPECT_EQ(add(a, negate(a)), 0U);
    }
}

TEST(Residues, an_inverse_times_its_number_is_one) {
  for (const Residue a : some_residues()) {
    if (a == 0) continue;
    EXPECT_EQ(multiply(a, inverse(a)), 1U) << a;
    EXPECT_EQ(multiply(divide(7, a), a), 7U) << a;
  }
  EXPECT_THROW(inverse(0), ZeroDivisor);
  EXPECT_THROW(divide(1, 0), ZeroDivisor);
}

TEST(Residues, of_integers_are_remainders) {
  EXPECT_EQ(residue_of_integer(0), 0U);
  EXPECT_EQ(residue_of_integer(-1), residue_prime - 1);
  EXPECT_EQ(residue_of_integer(static_cast<std::int64_t>(residue_prime)), 0U);
  EXPECT_EQ(residue_of_integer(-static_cast<std::int64_t>(residue_prime)), 0U);
  EXPECT_EQ(residue_of_integer(std::numeric_limits<std::int64_t>::max()), 3U);
  EXPECT_EQ(residue_of_integer(std::numeric_limits<std::int64_t>::min()), residue_prime - 4);
}

TEST(Residues, of_a_double_are_those_of_the_dyadic_number) {
  EXPECT_EQ(residue_of(0), 0U);
  EXPECT_EQ(residue_of(-0.0), 0U);
  EXPECT_EQ(residue_of(1), 1U);
  EXPECT_EQ(residue_of(-3), residue_prime - 3);
  EXPECT_EQ(multiply(residue_of(0.75), 4), 3U);
  EXPECT_EQ(residue_of(0x1p61), 1U);
  EXPECT_EQ(residue_of(0x1p-61), 1U);
  std::mt19937_64 random(2);
  for (int trial = 0; trial < 1000; ++trial) {
    // Both have few enough bits for an exact sum and product.
    const double a = std::ldexp(static_cast<double>(random() % (1U << 26)), trial % 300 - 400),
                 b = -std::ldexp(static_cast<double>(random() % (1U << 26)), trial % 300 - 390);
    EXPECT_EQ(residue_of(a + b), add(residue_of(a), residue_of(b))) << a << " " << b;
    EXPECT_EQ(residue_of(a * b), multiply(residue_of(a), residue_of(b))) << a << " " << b;
  }
  const double third = 1.0 / 3;
  EXPECT_NE(residue_of(third), residue_of(std::nextafter(third, 1)));
  EXPECT_NE(residue_of(third), inverse(3)) << "a rounded number is not the fraction";
  const double least = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(residue_of(3 * least), multiply(3, residue_of(least)));
  EXPECT_EQ(residue_of(std::numeric_limits<double>::infinity()), not_finite);
  EXPECT_EQ(residue_of(std::numeric_limits<double>::quiet_NaN()), not_finite);
}

TEST(Residues, sums_products_and_hashes_hand_on_that_a_number_is_not_finite) {
  const Residues residues(3);
  for (const Residue a : some_residues()) {
    EXPECT_EQ(add(a, not_finite), not_finite);
    EXPECT_EQ(add(not_finite, a), not_finite);
    EXPECT_EQ(subtract(a, not_finite), not_finite);
    EXPECT_EQ(multiply(a, not_finite), not_finite) << "also where a is 0";
    EXPECT_EQ(multiply(not_finite, a), not_finite);
    EXPECT_EQ(residues.hash(1, {a, not_finite}), not_finite);
    EXPECT_EQ(residues.hash(1, {not_finite, a}), not_finite);
    EXPECT_EQ(dot(std::vector{a, Residue{1}}, std::vector{not_finite, a}), not_finite);
    EXPECT_EQ(dot(std::vector{a, minus_infinity}, std::vector{a, a}), not_finite);
  }
  EXPECT_EQ(negate(not_finite), not_finite);
  EXPECT_EQ(inverse(not_finite), not_finite);
  EXPECT_EQ(residues.exponential(not_finite), not_finite);
  EXPECT_EQ(residues.logarithm(not_finite), not_finite);
  EXPECT_FALSE(is_finite(not_finite));
  EXPECT_TRUE(is_finite(0) && is_finite(residue_prime - 1));
}

TEST(Residues, the_exponential_has_an_inverse) {
  const Residues residues(4);
  std::set<Residue> images;
  for (const Residue a : some_residues()) {
    const Residue image = residues.exponential(a);
    EXPECT_LT(image, residue_prime);
    EXPECT_EQ(residues.logarithm(image), a);
    EXPECT_EQ(residues.exponential(residues.logarithm(a)), a);
    images.insert(image);
  }
  EXPECT_EQ(images.size(), some_residues().size());
  EXPECT_EQ(residues.exponential(minus_infinity), 0U);
}

TEST(Residues, the_order_is_total) {
  const Residues residues(5);
  std::vector<Residue> list = some_residues();
  list.insert(list.end(), {minus_infinity, not_finite});
  std::ranges::sort(list, [&](Residue a, Residue b) { return residues.is_larger(b, a); });
  EXPECT_EQ(list.front(), minus_infinity);
  EXPECT_EQ(list.back(), not_finite);
  for (std::size_t i = 0; i < list.size(); ++i)
    for (std::size_t j = 0; j < list.size(); ++j) {
      EXPECT_EQ(residues.is_larger(list[i], list[j]), i > j);
      EXPECT_EQ(residues.larger(list[i], list[j]), list[std::max(i, j)]);
    }
  std::vector<Residue> by_number = some_residues();
  std::ranges::sort(by_number);
  EXPECT_FALSE(std::ranges::is_sorted(by_number, [&](Residue a, Residue b) {
    return residues.is_larger(b, a);
  })) << "it is not the order of the residues themselves";
}

TEST(Residues, functions_differ_by_key_name_and_argument) {
  const Residues residues(6), others(7);
  std::set<Residue> values;
  std::size_t count = 0;
  const auto insert = [&](Residue value) {
    EXPECT_LT(value, residue_prime);
    values.insert(value);
    ++count;
  };
  for (const Residues* keys : {&residues, &others}) {
    for (const Residue function : {function_name("gelu"), function_name("rsqrt")}) {
      insert(keys->hash(function, {}));
      for (const Residue a : {0, 1}) {
        insert(keys->hash(function, {a}));
        for (const Residue b : {0, 1}) insert(keys->hash(function, {a, b}));
      }
    }
    for (std::uint64_t stream = 0; stream < 2; ++stream)
      for (std::uint64_t seed = 0; seed < 2; ++seed)
        for (std::uint64_t step = 0; step < 2; ++step)
          for (std::uint64_t element = 0; element < 2; ++element)
            for (std::uint64_t draw = 0; draw < 2; ++draw)
              insert(keys->random({stream}, seed, step, element, draw));
    insert(keys->exponential(1));
    insert(keys->logarithm(1));
  }
  EXPECT_EQ(values.size(), count);
  EXPECT_EQ(residues.hash(1, {2, 3}), Residues(6).hash(1, {2, 3}));
}

TEST(Residues, a_dot_product_of_any_length_is_the_sum_of_its_products) {
  for (std::size_t length = 0; length < 300; ++length) {
    // The largest residues, whose products need the most bits.
    const std::vector<Residue> a(length, residue_prime - 1);
    EXPECT_EQ(dot(a, a), length) << "(-1)(-1) added up";
  }
  std::mt19937_64 random(8);
  std::vector<Residue> a(1000), b(1000);
  Residue sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = random() % residue_prime;
    b[i] = random() % residue_prime;
    sum = add(sum, multiply(a[i], b[i]));
    EXPECT_EQ(dot(std::span(a).first(i + 1), std::span(b).first(i + 1)), sum);
  }
}

}  // namespace
}  // namespace fourfold::op
