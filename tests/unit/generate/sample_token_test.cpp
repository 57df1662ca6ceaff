#include "generate/sample_token.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "unit/data/expect_error.h"

namespace fourfold::generate {
namespace {

using Logits = std::vector<double>;
using Ids = std::vector<std::int32_t>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double almost_one = 1 - 0x1.0p-53;

SampleSpec spec_of(double temperature, std::int64_t top_k = 0) {
  SampleSpec spec;
  spec.temperature = temperature;
  spec.top_k = top_k;
  return spec;
}

TEST(SampleToken, temperature_zero_takes_the_largest_logit_whatever_the_random_number) {
  for (const double uniform : {0.0, 0.5, almost_one}) {
    EXPECT_EQ(sample_token(Logits{-3, 5, 4.9, -infinity}, spec_of(0), uniform), 1);
    EXPECT_EQ(sample_token(Logits{1, 7, 7, 7}, spec_of(0), uniform), 1)
        << "of equals the lowest id";
    EXPECT_EQ(sample_token(Logits{1, 7, 7, 7}, spec_of(0, 3), uniform), 1);
  }
}

TEST(SampleToken, a_tiny_temperature_tends_to_the_largest_logit) {
  for (const double uniform : {0.0, 0.5, almost_one})
    EXPECT_EQ(sample_token(Logits{-3, 5, 4.9}, spec_of(1e-300), uniform), 1);
}

TEST(SampleToken, the_cumulative_distribution_is_inverted_in_the_order_of_the_ids) {
  const Logits logits = {std::log(0.2), std::log(0.5), std::log(0.3)};
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.0), 0);
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.199), 0);
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.201), 1);
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.699), 1);
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.701), 2);
  EXPECT_EQ(sample_token(logits, spec_of(1), almost_one), 2);
}

/// Chi-square of 20000 samples against softmax(logits / temperature).
double chi_square(const Logits& logits, double temperature, const std::vector<bool>& allowed) {
  constexpr int num_samples = 20000;
  const SampleSpec spec = spec_of(temperature, std::count(allowed.begin(), allowed.end(), true));
  const Random random(11, random_stream("chi-square"));
  std::vector<double> counts(logits.size());
  for (std::uint64_t i = 0; i < num_samples; ++i)
    counts[static_cast<std::size_t>(sample_token(logits, spec, random.uniform(i, 0)))] += 1;
  double total = 0, result = 0;
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (allowed[id]) total += std::exp(logits[id] / temperature);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (!allowed[id]) {
      EXPECT_EQ(counts[id], 0) << "token " << id << " is not among the likeliest";
      continue;
    }
    const double expected = num_samples * std::exp(logits[id] / temperature) / total;
    result += (counts[id] - expected) * (counts[id] - expected) / expected;
  }
  return result;
}

TEST(SampleToken, samples_follow_the_softmax_of_the_logits) {
  const Logits logits = {0.1, -1.2, 2.0, 0.7, -0.5, 1.1};
  const std::vector<bool> all(6, true);
  for (const double temperature : {0.7, 1.0, 2.5})
    EXPECT_LT(chi_square(logits, temperature, all), 20.5)
        << temperature;  // 5 degrees of freedom, p = 0.001
}

TEST(SampleToken, top_k_samples_follow_the_softmax_of_the_largest_only) {
  const Logits logits = {0.1, -1.2, 2.0, 0.7, -0.5, 1.1};
  EXPECT_LT(chi_square(logits, 1.0, {false, false, true, true, false, true}),
            13.8);  // 2 degrees, p = 0.001
}

TEST(SampleToken, top_one_is_the_largest_and_a_large_top_k_is_everything) {
  const Logits logits = {1, 3, 2};
  for (const double uniform : {0.0, 0.4, almost_one}) {
    EXPECT_EQ(sample_token(logits, spec_of(5, 1), uniform), 1);
    for (const std::int64_t top_k : {3, 4, 1000000})
      EXPECT_EQ(sample_token(logits, spec_of(5, top_k), uniform),
                sample_token(logits, spec_of(5), uniform));
  }
}

/// Every token that can come, by a fine comb of random numbers.
Ids all_that_come(const Logits& logits, const SampleSpec& spec) {
  std::set<std::int32_t> ids;
  for (int i = 0; i < 10000; ++i) ids.insert(sample_token(logits, spec, i / 10000.0));
  return {ids.begin(), ids.end()};
}

TEST(SampleToken, top_p_keeps_the_fewest_likeliest_that_have_the_probability) {
  // Probabilities 0.1, 0.4, 0.2, 0.3.
  const Logits logits = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};
  SampleSpec spec = spec_of(1);
  for (const auto& [top_p, expected] : std::vector<std::pair<double, Ids>>{{1e-9, {1}},
                                                                           {0.39, {1}},
                                                                           {0.41, {1, 3}},
                                                                           {0.69, {1, 3}},
                                                                           {0.71, {1, 2, 3}},
                                                                           {0.91, {0, 1, 2, 3}},
                                                                           {1.0, {0, 1, 2, 3}}}) {
    spec.top_p = top_p;
    EXPECT_EQ(all_that_come(logits, spec), expected) << top_p;
  }
}

TEST(SampleToken, top_p_weighs_what_temperature_and_top_k_have_left) {
  const Logits logits = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};
  SampleSpec spec = spec_of(1, 2);
  // The first of tokens 1 and 3 has 4/7.
  spec.top_p = 0.57;
  EXPECT_EQ(all_that_come(logits, spec), (Ids{1}));
  spec.top_p = 0.58;
  EXPECT_EQ(all_that_come(logits, spec), (Ids{1, 3}));
  // At half the temperature probabilities are as 1, 16, 4, 9: the first has 16/30.
  spec = spec_of(0.5);
  spec.top_p = 0.53;
  EXPECT_EQ(all_that_come(logits, spec), (Ids{1}));
  spec.top_p = 0.54;
  EXPECT_EQ(all_that_come(logits, spec), (Ids{1, 3}));
}

TEST(SampleToken, of_equal_logits_at_the_edge_of_top_p_the_lower_ids_take_part) {
  SampleSpec spec = spec_of(1);
  spec.top_p = 0.5;
  EXPECT_EQ(all_that_come(Logits{2, 2, 2, 2}, spec), (Ids{0, 1}));
  EXPECT_EQ(all_that_come(Logits{-infinity, 2, -infinity, -infinity}, spec), (Ids{1}));
}

TEST(SampleToken, of_equal_logits_at_the_edge_of_top_k_the_lower_ids_take_part) {
  const Logits logits = {0, 1, 1, 1, 1};
  EXPECT_EQ(sample_token(logits, spec_of(1, 2), 0.0), 1);
  EXPECT_EQ(sample_token(logits, spec_of(1, 2), 0.49), 1);
  EXPECT_EQ(sample_token(logits, spec_of(1, 2), 0.51), 2);
  EXPECT_EQ(sample_token(logits, spec_of(1, 2), almost_one), 2);
}

TEST(SampleToken, minus_infinity_is_a_token_that_cannot_come) {
  const Logits logits = {-infinity, 0, -infinity, 0, -infinity};
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.0), 1);
  EXPECT_EQ(sample_token(logits, spec_of(1), 0.51), 3);
  EXPECT_EQ(sample_token(logits, spec_of(1), almost_one), 3);
  EXPECT_EQ(sample_token(logits, spec_of(1, 4), almost_one), 3);
}

TEST(SampleToken, huge_logits_do_not_overflow) {
  EXPECT_EQ(sample_token(Logits{1e308, -1e308}, spec_of(0.1), 0.99), 0);
  EXPECT_EQ(sample_token(Logits{1e308, 1e308}, spec_of(0.1), 0.99), 1);
}

TEST(SampleToken, logits_that_are_no_numbers_stop_with_the_token_named) {
  for (const double temperature : {0.0, 1.0}) {
    for (const double bad : {std::nan(""), infinity}) {
      const auto message = user_error(ExitCode::numeric_stop, [&] {
        sample_token(Logits{0, bad, 2}, spec_of(temperature), 0.5);
      });
      expect_words(message, {"token 1"});
    }
    expect_words(
        user_error(ExitCode::numeric_stop,
                   [&] { sample_token(Logits{-infinity, -infinity}, spec_of(temperature), 0.5); }),
        {"-inf"});
  }
}

TEST(SampleToken, a_random_number_just_below_one_finds_a_token_whatever_the_total) {
  const Random random(3, random_stream("totals"));
  for (std::uint64_t trial = 0; trial < 10000; ++trial) {
    Logits logits;
    for (std::uint32_t id = 0; id <= trial % 7; ++id)
      logits.push_back(8 * random.normal(trial, id));
    EXPECT_NO_THROW(sample_token(logits, spec_of(1), almost_one));
    EXPECT_NO_THROW(sample_token(logits, spec_of(1), 0));
  }
}

TEST(SampleToken, no_logits_or_negative_settings_are_a_bug) {
  EXPECT_THROW(sample_token(Logits{}, spec_of(1), 0), InternalError);
  EXPECT_THROW(sample_token(Logits{1}, spec_of(-1), 0), InternalError);
  EXPECT_THROW(sample_token(Logits{1}, spec_of(1, -1), 0), InternalError);
  EXPECT_THROW(sample_token(Logits{1}, spec_of(1), 1), InternalError);
}

}  // namespace
}  // namespace fourfold::generate
