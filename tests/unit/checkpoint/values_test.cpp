// The loops over dense values: digests are sums of digest_term, and no change goes unseen.
#include "checkpoint/values.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/digest_term.h"

namespace fourfold::checkpoint {
namespace {

constexpr RandomStream stream = random_stream("w");

template <class T>
std::vector<T> some_values(std::size_t count) {
  std::vector<T> values(count);
  const Random random(3, stream);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random.below(std::uint64_t{1} << 62, i, 0);
    std::memcpy(static_cast<void*>(&values[i]), &bits, sizeof(T));
  }
  return values;
}

template <class T>
std::uint64_t digest(DType dtype, const std::vector<T>& values, std::int64_t first = 0) {
  return digest_of_values(dtype, stream, first, std::as_bytes(std::span(values)));
}

template <class T>
void expect_sum_of_terms(DType dtype) {
  for (const std::size_t count : {0, 1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 1000})
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, (std::int64_t{1} << 32) - 3,
                                     (std::int64_t{1} << 32) + 9}) {
      const std::vector<T> values = some_values<T>(count);
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < count; ++i)
        sum +=
            digest_term(stream.id, static_cast<std::uint64_t>(first) + i, element_bits(values[i]));
      EXPECT_EQ(digest(dtype, values, first), sum) << count << " from " << first;
    }
}

TEST(Values, a_digest_is_the_sum_of_its_terms_for_any_type_length_and_place) {
  expect_sum_of_terms<float>(DType::f32);
  expect_sum_of_terms<double>(DType::f64);
  expect_sum_of_terms<BFloat16>(DType::bf16);
  expect_sum_of_terms<std::int64_t>(DType::i64);
}

TEST(Values, a_term_is_what_it_was_in_every_version_of_the_format) {
  EXPECT_EQ(digest_term(0, 0, 1), 0U);
  EXPECT_EQ(digest_term(0, 1, 0), 0x9E3779B9U * std::uint64_t{0x7F4A7C15U});
  EXPECT_EQ(digest_term(0x0123456789ABCDEF, 0, 0), 0x01234567U * std::uint64_t{0x89ABCDEFU});
  // x = 1 * p, below 2^32: a product with 0; of 2^32 - 1 it is (2^32 - 1) p.
  EXPECT_EQ(digest_term(0, 0, 0xFFFFFFFFU), 0x61C8864FU * std::uint64_t{0x9E3779B0U});
}

TEST(Values, every_flipped_bit_and_every_swap_of_two_values_changes_the_digest) {
  std::vector<float> values = some_values<float>(256);
  const std::uint64_t before = digest(DType::f32, values);
  for (float& value : values)
    for (int bit = 0; bit < 32; ++bit) {
      const float whole = value;
      value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1U << bit));
      ASSERT_NE(digest(DType::f32, values), before);
      value = whole;
    }
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      std::swap(values[i], values[j]);
      ASSERT_NE(digest(DType::f32, values), before) << i << " and " << j;
      std::swap(values[i], values[j]);
    }
}

/// What a wrong stride or a cut that is placed wrongly does: changes that come in pairs and
/// rectangles, which a sum of weights would not see.
TEST(Values, changes_that_repeat_in_a_pattern_do_not_cancel) {
  constexpr std::size_t width = 32;
  const std::vector<float> values(width * width, 1.5F);
  const std::uint64_t before = digest(DType::f32, values);
  std::size_t tried = 0;
  for (const std::uint32_t flip : {0x80000000U, 1U, 0x00800000U, 0x80000001U})
    for (std::size_t row = 1; row < width; ++row)
      for (std::size_t column = 1; column < width; ++column) {
        std::vector<float> other = values;
        for (const std::size_t place : {std::size_t{0}, column, row * width, row * width + column})
          other[place] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(other[place]) ^ flip);
        ASSERT_NE(digest(DType::f32, other), before) << row << " " << column;
        ++tried;
      }
  EXPECT_EQ(tried, 4U * 31 * 31);
}

TEST(Values, one_value_that_is_not_finite_is_seen_wherever_it_stands) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    for (std::size_t place = 0; place < 100; ++place) {
      std::vector<float> values(100, std::numeric_limits<float>::max());
      EXPECT_TRUE(is_finite(DType::f32, std::as_bytes(std::span(values))));
      values[place] = bad;
      EXPECT_FALSE(is_finite(DType::f32, std::as_bytes(std::span(values)))) << place;
    }
}

}  // namespace
}  // namespace fourfold::checkpoint
