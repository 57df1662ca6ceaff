// Pictures made from nothing, which a model can learn to tell apart: for tests and measurements
// without files.
#pragma once

#include "data/picture_set.h"

namespace fourfold::data {

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
};

}  // namespace fourfold::data
