// A set of hashes. Not for numbers that are alike in their lowest bits: they are not mixed here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace fourfold {

/// As std::unordered_set, but flat: no allocation for each number, and one look at memory.
class NumberSet {
 public:
  /// False where it has the number already.
  bool insert(std::uint64_t number) {
    if (number == none) return !std::exchange(has_none_, true);
    if (2 * (count_ + 1) > places_.size()) grow();
    const bool is_added = put(number);
    count_ += is_added ? 1 : 0;
    return is_added;
  }
  bool has(std::uint64_t number) const {
    if (number == none) return has_none_;
    if (places_.empty()) return false;
    std::size_t place = number & (places_.size() - 1);
    while (places_[place] != none && places_[place] != number)
      place = (place + 1) & (places_.size() - 1);
    return places_[place] == number;
  }

 private:
  static constexpr std::uint64_t none = 0;  // at a place without a number

  bool put(std::uint64_t number) {
    std::size_t place = number & (places_.size() - 1);
    while (places_[place] != none && places_[place] != number)
      place = (place + 1) & (places_.size() - 1);
    return std::exchange(places_[place], number) == none;
  }
  void grow() {
    const std::vector<std::uint64_t> old = std::move(places_);
    places_.assign(old.empty() ? 16 : 2 * old.size(), none);
    for (const std::uint64_t number : old)
      if (number != none) put(number);
  }

  std::vector<std::uint64_t> places_;  // a power of two of them, at most half of them taken
  std::size_t count_ = 0;
  bool has_none_ = false;
};

}  // namespace fourfold
