// Tokens and pictures made from nothing, with a pattern that a model can learn: for tests and
// measurements without files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/picture_set.h"

namespace fourfold::data {

inline constexpr std::int64_t synthetic_length = std::int64_t{1} << 18;

/// Token i follows from the two before it: with probability 7/8 it is P(token i-1), P being one of
/// two fixed random permutations of the vocabulary, chosen by the parity of token i-2; otherwise it
/// is any token, all equally likely. So most tokens have two likely followers (what a
/// bigram model learns), and the token before decides between them (what attention learns). The
/// stream has `synthetic_length` tokens and depends on `vocab_size` alone.
/// Requires: vocab_size from 1 to 2^31 - 1.
std::vector<std::int32_t> synthetic_tokens(std::int64_t vocab_size);

/// Mean loss per token, in nats, of the best prediction of that stream.
double synthetic_entropy(std::int64_t vocab_size);

/// Picture i is of class i mod num_classes. A class is a pattern of 4 x 4 fields, with a random
/// level from 0 to 127 for each field and channel; a value of a picture is its field's level and
/// noise from 0 to 127. Both are functions of class, picture and place alone.
class SyntheticPictures final : public PictureSet {
 public:
  static constexpr std::int64_t count = std::int64_t{1} << 16;

  /// Requires a shape without fault_of() and at least one class.
  SyntheticPictures(const PictureShape& shape, std::int64_t num_classes);

  void read(std::int64_t picture, std::span<std::uint8_t> into) const override;
  std::string place(std::int64_t picture) const override;
  std::vector<std::string> files() const override { return {}; }
};

}  // namespace fourfold::data
