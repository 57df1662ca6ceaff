#include "data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

namespace fourfold::data {
namespace {

TEST(Synthetic, the_stream_has_its_documented_length_and_stays_in_its_vocabulary) {
  for (const std::int64_t vocab_size : {1, 2, 7, 256}) {
    const auto tokens = synthetic_tokens(vocab_size);
    EXPECT_EQ(static_cast<std::int64_t>(tokens.size()), synthetic_length);
    EXPECT_EQ(*std::min_element(tokens.begin(), tokens.end()), 0);
    EXPECT_EQ(*std::max_element(tokens.begin(), tokens.end()), vocab_size - 1);
  }
}

TEST(Synthetic, the_stream_is_the_same_every_time) {
  EXPECT_EQ(synthetic_tokens(19), synthetic_tokens(19));
}

/// Entropy in nats of the next token given a context, from counts.
double measured_entropy(const std::vector<std::int32_t>& tokens,
                        std::int64_t (*context)(std::int32_t, std::int32_t)) {
  std::map<std::int64_t, std::map<std::int32_t, double>> counts;
  for (std::size_t i = 2; i < tokens.size(); ++i)
    ++counts[context(tokens[i - 2], tokens[i - 1])][tokens[i]];
  double nats = 0;
  for (const auto& [key, followers] : counts) {
    double total = 0;
    for (const auto& [token, count] : followers) total += count;
    for (const auto& [token, count] : followers) nats -= count * std::log(count / total);
  }
  return nats / static_cast<double>(tokens.size() - 2);
}

TEST(Synthetic, the_pattern_is_learnable_in_two_stages) {
  const auto tokens = synthetic_tokens(16);
  const double unigram =
      measured_entropy(tokens, [](std::int32_t, std::int32_t) -> std::int64_t { return 0; });
  const double bigram = measured_entropy(
      tokens, [](std::int32_t, std::int32_t last) -> std::int64_t { return last; });
  const double trigram = measured_entropy(
      tokens,
      [](std::int32_t before, std::int32_t last) -> std::int64_t { return before * 16 + last; });
  EXPECT_NEAR(unigram, std::log(16.0), 0.3);
  EXPECT_LT(bigram, unigram - 1.0);
  EXPECT_LT(trigram, bigram - 0.15);
  EXPECT_NEAR(trigram, synthetic_entropy(16), 0.02);
}

TEST(Synthetic, one_token_carries_no_information) {
  EXPECT_EQ(synthetic_entropy(1), 0.0);
}

}  // namespace
}  // namespace fourfold::data
