// A random order of the numbers below n without a table.
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.h"

namespace fourfold::data {

/// A bijection of [0, size) onto itself, a pure function of (random, epoch): a Feistel network of
/// six rounds (Luby and Rackoff, SIAM J. Comput. 17, 1988, need four) with Philox as its function,
/// on the smallest even number of bits that holds size - 1; numbers beyond are sent through again
/// until they fall below ("cycle walking": Black and Rogaway, CT-RSA 2002). Requires size > 0.
/// Cost: below 4 walks of 6 Philox calls on average.
class Permutation {
 public:
  Permutation(std::uint64_t size, const Random& random, std::uint32_t epoch)
      : size_(size), random_(random), epoch_(epoch) {
    const auto bits = static_cast<unsigned>(std::bit_width(size - 1));
    half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
  }

  std::uint64_t operator()(std::uint64_t index) const {
    do index = once(index);
    while (index >= size_);
    return index;
  }

 private:
  static constexpr std::uint32_t rounds = 6;

  std::uint64_t once(std::uint64_t index) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed = left ^ (random_.words(right, epoch_, round)[0] & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_;
  Random random_;
  std::uint32_t epoch_;
  unsigned half_bits_;
};

}  // namespace fourfold::data
