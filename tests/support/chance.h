// What is drawn from a seed: the same on every machine. Header only.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace fourfold::test {

class Chance {
 protected:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  /// True in this share of all draws.
  bool chance(double share) { return static_cast<double>(random_() % 10000) < share * 10000; }
  /// One of a list, each as often as the others.
  template <class T>
  T pick(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }

  std::mt19937_64 random_;
};

}  // namespace fourfold::test
