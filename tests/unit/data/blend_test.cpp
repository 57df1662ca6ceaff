#include "data/blend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "data/permutation.h"

namespace fourfold::data {
namespace {

TEST(Permutation, is_a_bijection_of_every_size) {
  const Random random(7, random_stream("test"));
  for (std::uint64_t size = 1; size <= 300; ++size) {
    const Permutation permutation(size, random, 3);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    ASSERT_EQ(seen.size(), size);
    ASSERT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, epochs_and_seeds_give_other_orders_and_places_are_spread_evenly) {
  constexpr std::uint64_t size = 100;
  std::vector<int> at_first(size);
  for (std::uint32_t epoch = 0; epoch < 20000; ++epoch)
    ++at_first[Permutation(size, Random(1, random_stream("test")), epoch)(0)];
  double chi_square = 0;
  for (const int count : at_first) chi_square += (count - 200.0) * (count - 200.0) / 200.0;
  EXPECT_LT(chi_square, 148.2);  // 99 degrees of freedom, p = 0.001
  const Permutation one(size, Random(1, random_stream("test")), 0),
      other(size, Random(2, random_stream("test")), 0);
  int same = 0;
  for (std::uint64_t i = 0; i < size; ++i) same += one(i) == other(i);
  EXPECT_LT(same, 10);
}

TEST(Permutation, neighbours_do_not_stay_together) {
  constexpr std::uint64_t size = 1'000'000'007;
  const Permutation permutation(size, Random(5, random_stream("test")), 0);
  int near = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const auto a = static_cast<double>(permutation(i)), b = static_cast<double>(permutation(i + 1));
    ASSERT_LT(a, static_cast<double>(size));
    near += std::abs(a - b) < 1e6;
  }
  EXPECT_LT(near, 50);  // 20 expected of random places
}

TEST(Blend, every_set_has_its_share_in_every_prefix_and_counts_its_own_samples) {
  for (const std::vector<double>& weights :
       {std::vector<double>{1}, {1, 1}, {3, 1}, {0.7, 0.2, 0.1}, {1e-4, 1}, {5, 4, 3, 2, 1}}) {
    const Blend blend(weights);
    double sum = 0;
    for (const double weight : weights) sum += weight;
    std::vector<std::int64_t> count(weights.size());
    for (std::int64_t g = 0; g < 2 * Blend::period + 1000; ++g) {
      const auto [set, number] = blend.pick(g);
      ASSERT_EQ(number, count[set]) << "sample " << g;
      ++count[set];
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const double share = static_cast<double>(blend.share(k)) / Blend::period;
        ASSERT_LE(std::abs(static_cast<double>(count[k]) - share * static_cast<double>(g + 1)),
                  (1 + static_cast<double>(weights.size()) * share) / 2 + 1e-9)
            << "set " << k << " at sample " << g;
        ASSERT_LE(std::abs(share - weights[k] / sum), 1.0 / Blend::period);
      }
    }
  }
}

}  // namespace
}  // namespace fourfold::data
