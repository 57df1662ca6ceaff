#include "data/synthetic.h"

#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/format.h"
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

namespace {

constexpr std::int64_t fields = 4;  // a side

PictureFacts facts_of(const PictureShape& shape, std::int64_t num_classes) {
  require(!fault_of(shape), "synthetic pictures have a size that a picture may have");
  require(num_classes >= 1, "synthetic pictures have a class");
  PictureFacts facts;
  facts.path = "synthetic pictures";
  facts.kind = "synthetic pictures";
  facts.shape = shape;
  facts.num_classes = num_classes;
  for (std::int64_t i = 0; i < SyntheticPictures::count; ++i)
    facts.labels.push_back(static_cast<std::int32_t>(i % num_classes));
  facts.hash = "0000000000000000";  // they depend on their shape and the classes alone
  return facts;
}

}  // namespace

SyntheticPictures::SyntheticPictures(const PictureShape& shape, std::int64_t num_classes)
    : PictureSet(facts_of(shape, num_classes)) {}

void SyntheticPictures::read(std::int64_t picture, std::span<std::uint8_t> into) const {
  const Random levels(0, random_stream("data.synthetic.pattern")),
      noise(0, random_stream("data.synthetic.noise"));
  const auto of_class = static_cast<std::uint64_t>(label(picture));
  std::size_t at = 0;
  for (std::int64_t y = 0; y < shape().height; ++y)
    for (std::int64_t x = 0; x < shape().width; ++x)
      for (std::int64_t c = 0; c < shape().channels; ++c, ++at) {
        const std::int64_t field =
            y * fields / shape().height * fields + x * fields / shape().width;
        const auto level =
            levels.below(128, of_class, static_cast<std::uint32_t>(field * shape().channels + c));
        const auto word = noise.words(static_cast<std::uint64_t>(picture),
                                      static_cast<std::uint32_t>(at / 16))[at / 4 % 4];
        const std::uint32_t random = word >> (at % 4 * 8) & 127;
        into[at] = static_cast<std::uint8_t>(level + random);
      }
}

std::string SyntheticPictures::place(std::int64_t picture) const {
  return format("synthetic picture {}", picture);
}

}  // namespace fourfold::data
