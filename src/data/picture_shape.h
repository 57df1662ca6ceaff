// The size of a picture in memory, and how large one may be. Not what it shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fourfold::data {

/// Bytes of a picture lie in the order height, width, channel. One channel is grey; three are red,
/// green and blue.
struct PictureShape {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t size_bytes() const { return height * width * channels; }
  /// "32x32x3".
  std::string text() const;
  bool operator==(const PictureShape&) const = default;
};

/// Bounds for what a file's header claims, before anything of that size is asked of memory: a
/// picture of 4096 x 4096 in colour has 48 MiB.
inline constexpr std::int64_t most_picture_side = 16384;
inline constexpr std::int64_t most_picture_bytes = std::int64_t{64} << 20;

/// What is wrong with a shape from a header, such as "is 0x28x1, expected ..."; nothing where it is
/// one that a picture may have.
std::optional<std::string> fault_of(const PictureShape& shape);

}  // namespace fourfold::data
