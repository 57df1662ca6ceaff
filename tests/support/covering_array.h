// Few cases in which every value of a factor meets every value of each other one: a covering array
// (Cohen et al. 1997, "The AETG system", IEEE Trans. Software Eng. 23(7)). Header only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace fourfold::test {

/// The number of a value for each factor.
using Assignment = std::vector<int>;
inline constexpr int open_value = -1;  // of a factor that has no value yet

/// What is drawn from: how many values each factor has, and which go together. `is_legal` also sees
/// assignments with open values, and is true where these can still become legal ones.
struct Factors {
  std::vector<int> sizes;
  std::function<bool(const Assignment&)> is_legal;
};

struct CoveringArray {
  std::vector<Assignment> rows;
  /// Combinations for which no legal row was found; other factors are open.
  std::vector<Assignment> impossible;
};

/// Makes rows that have every combination of values of `strength` factors, but for those that no
/// legal row has. Greedy: of some rows that are drawn around a missing combination, the one with
/// the most missing ones is taken. The same seed gives the same rows. Takes about rows x tries x
/// values x factors^(strength - 1) steps, and values^strength bytes, of the values of all factors.
class CoveringArrayMaker {
 public:
  CoveringArrayMaker(Factors factors, std::size_t strength, std::uint32_t seed)
      : factors_(std::move(factors)), strength_(strength), random_(seed) {
    for (const int size : factors_.sizes) {
      first_.push_back(num_values_);
      num_values_ += static_cast<std::size_t>(size);
    }
    std::size_t keys = 1;
    for (std::size_t i = 0; i < strength; ++i) keys *= num_values_;
    is_missing_.assign(keys, false);
    mark_all(0, 0, strength);
  }

  CoveringArray make() {
    CoveringArray array;
    for (std::size_t key = 0; key < is_missing_.size(); ++key)
      while (is_missing_[key]) {
        const Assignment wanted = combination_of(key);
        Assignment best;
        std::size_t most = 0;
        for (int attempt = 0; attempt < tries; ++attempt) {
          Assignment row = drawn_around(wanted);
          const std::size_t gain = row.empty() ? 0 : gain_of(row);
          if (gain > most) most = gain, best = std::move(row);
        }
        if (best.empty()) {
          array.impossible.push_back(wanted);
          is_missing_[key] = false;
          continue;
        }
        for_each_key(best, 0, 0, strength_, [&](std::size_t one) { is_missing_[one] = false; });
        array.rows.push_back(best);
      }
    return array;
  }

 private:
  static constexpr int tries = 30;

  /// Keys are numbers of values of rising factors, as digits.
  std::size_t longer(std::size_t key, std::size_t factor, int value) const {
    return key * num_values_ + first_[factor] + static_cast<std::size_t>(value);
  }

  void mark_all(std::size_t from, std::size_t key, std::size_t count) {
    if (count == 0) is_missing_[key] = true;
    for (std::size_t factor = from; count > 0 && factor < first_.size(); ++factor)
      for (int value = 0; value < factors_.sizes[factor]; ++value)
        mark_all(factor + 1, longer(key, factor, value), count - 1);
  }

  /// Calls `visit` with the key of each combination that a row has.
  template <class Visit>
  void for_each_key(const Assignment& row, std::size_t from, std::size_t key, std::size_t count,
                    const Visit& visit) const {
    if (count == 0) return visit(key);
    for (std::size_t factor = from; factor < row.size(); ++factor)
      if (row[factor] != open_value)
        for_each_key(row, factor + 1, longer(key, factor, row[factor]), count - 1, visit);
  }

  std::size_t gain_of(const Assignment& row) const {
    std::size_t gain = 0;
    for_each_key(row, 0, 0, strength_, [&](std::size_t key) { gain += is_missing_[key]; });
    return gain;
  }

  Assignment combination_of(std::size_t key) const {
    Assignment row(first_.size(), open_value);
    for (std::size_t i = 0; i < strength_; ++i, key /= num_values_) {
      const std::size_t value = key % num_values_;
      const auto factor =
          static_cast<std::size_t>(std::ranges::upper_bound(first_, value) - first_.begin() - 1);
      row[factor] = static_cast<int>(value - first_[factor]);
    }
    return row;
  }

  /// A legal row with these values; empty where the draw led to none.
  Assignment drawn_around(Assignment row) {
    if (!factors_.is_legal(row)) return {};
    std::vector<std::size_t> order;
    for (std::size_t factor = 0; factor < row.size(); ++factor)
      if (row[factor] == open_value) order.push_back(factor);
    std::ranges::shuffle(order, random_);
    for (const std::size_t factor : order) {
      std::vector<int> values(static_cast<std::size_t>(factors_.sizes[factor]));
      std::iota(values.begin(), values.end(), 0);
      std::ranges::shuffle(values, random_);
      int chosen = open_value;
      std::size_t most = 0;
      for (const int value : values) {
        row[factor] = value;
        if (!factors_.is_legal(row)) continue;
        const std::size_t gain = gain_of(row);
        if (chosen == open_value || gain > most) most = gain, chosen = value;
      }
      if (chosen == open_value) return {};
      row[factor] = chosen;
    }
    return row;
  }

  Factors factors_;
  std::size_t strength_;
  std::mt19937 random_;
  std::vector<std::size_t> first_;  // by factor, the number of its first value among all
  std::size_t num_values_ = 0;
  std::vector<bool> is_missing_;  // by key
};

}  // namespace fourfold::test
