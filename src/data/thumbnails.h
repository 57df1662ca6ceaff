// Small pictures as letters, for a look at data. Not for files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/picture_shape.h"

namespace fourfold::data {

/// The columns of the widest thumbnail.
inline constexpr std::int64_t thumbnail_columns = 24;

/// A picture as lines of one width, at most thumbnail_columns, of ASCII letters from dark to
/// bright; its darkest and brightest places are the ends of that scale. A letter is about twice as
/// high as wide. `bytes` has the shape's order.
std::vector<std::string> thumbnail(std::span<const std::uint8_t> bytes, const PictureShape& shape);

/// Thumbnails with a caption above each, beside each other on lines of at most 80 columns.
struct Captioned {
  std::string caption;
  std::vector<std::string> lines;
};
std::string side_by_side(const std::vector<Captioned>& pictures);

}  // namespace fourfold::data
