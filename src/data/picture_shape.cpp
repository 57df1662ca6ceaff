#include "data/picture_shape.h"

#include "base/format.h"
#include "base/units.h"

namespace fourfold::data {

std::string PictureShape::text() const {
  return format("{}x{}x{}", height, width, channels);
}

std::optional<std::string> fault_of(const PictureShape& shape) {
  const auto is_side = [](std::int64_t side) { return side >= 1 && side <= most_picture_side; };
  if (!is_side(shape.height) || !is_side(shape.width))
    return format("is {} high and {} wide, expected 1 to {}", shape.height, shape.width,
                  most_picture_side);
  if (shape.channels != 1 && shape.channels != 3)
    return format("has {} channels, expected 1 (grey) or 3 (red, green, blue)", shape.channels);
  if (shape.size_bytes() > most_picture_bytes)
    return format("is {} large ({}), expected at most {}", format_bytes(shape.size_bytes()),
                  shape.text(), format_bytes(most_picture_bytes));
  return std::nullopt;
}

}  // namespace fourfold::data
