// Byte pair encoding of one piece of text: which tokens become one, in which order. No text is cut
// here, and no file read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fourfold::tokenizer {

/// The token `result` stands for `left` and `right` beside each other.
struct BytePairMerge {
  std::int32_t left = 0, right = 0, result = 0;
  bool operator==(const BytePairMerge&) const = default;
};

class BytePairMerges {
 public:
  /// By rank, the first to be done first. Requires: no pair comes twice; ids from 0.
  explicit BytePairMerges(std::span<const BytePairMerge> merges);

  /// Merges the tokens of one piece in place: as long as there is one, the pair of lowest rank,
  /// everywhere from left to right (Sennrich, Haddow, Birch 2016). Cost: n log n.
  void apply(std::vector<std::int32_t>& ids) const;

  /// Merges one pair at a time, the first of the pairs of lowest rank, as the tokenizers of Hugging
  /// Face do. The tokens are those of `apply`, unless a merge makes a pair of a lower rank than its
  /// own. Cost: n log n.
  void apply_in_order(std::vector<std::int32_t>& ids) const;

 private:
  /// A place of the hash table; rank `none`: empty.
  struct Entry {
    std::int32_t left = 0, right = 0, rank = none, result = 0;
  };
  static constexpr std::int32_t none = INT32_MAX;

  std::size_t place_of(std::int32_t left, std::int32_t right) const;
  /// With rank `none` where the two do not merge.
  const Entry& find(std::int32_t left, std::int32_t right) const;
  void apply_short(std::vector<std::int32_t>& ids) const;
  void apply_long(std::vector<std::int32_t>& ids) const;
  void apply_short_in_order(std::vector<std::int32_t>& ids) const;
  void apply_long_in_order(std::vector<std::int32_t>& ids) const;

  std::vector<Entry> table_;  // open addressing
  unsigned shift_ = 0;
};

}  // namespace fourfold::tokenizer
