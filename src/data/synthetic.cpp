#include "data/synthetic.h"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace fourfold::data {
namespace {

constexpr double noise = 0.125;
constexpr std::uint64_t seed = 0;  // not the run's: runs with different seeds see the same data

/// Fisher and Yates's shuffle; `which` tells the permutations apart.
std::vector<std::int32_t> permutation(std::int64_t size, std::uint32_t which) {
  const Random random(seed, random_stream("data.synthetic.permutation"));
  std::vector<std::int32_t> result(static_cast<std::size_t>(size));
  std::iota(result.begin(), result.end(), 0);
  for (std::size_t last = result.size(); last-- > 1;)
    std::swap(result[last], result[random.below(last + 1, last, which)]);
  return result;
}

}  // namespace

std::vector<std::int32_t> synthetic_tokens(std::int64_t vocab_size) {
  require(vocab_size >= 1, "a synthetic vocabulary has tokens");
  const auto bound = static_cast<std::uint64_t>(vocab_size);
  const std::array successors = {permutation(vocab_size, 0), permutation(vocab_size, 1)};
  const Random random(seed, random_stream("data.synthetic.tokens"));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(synthetic_length));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool surprises = i < 2 || random.uniform(i, 0) < noise;
    tokens[i] = surprises ? static_cast<std::int32_t>(random.below(bound, i, 0, 1))
                          : successors[static_cast<std::size_t>(tokens[i - 2] % 2)]
                                      [static_cast<std::size_t>(tokens[i - 1])];
  }
  return tokens;
}

double synthetic_entropy(std::int64_t vocab_size) {
  const double other =
      noise / static_cast<double>(vocab_size);  // of each token that is not the expected one
  const double expected = 1 - noise + other;
  const double rest = other * static_cast<double>(vocab_size - 1);
  return -expected * std::log(expected) - rest * std::log(other);
}

}  // namespace fourfold::data
