// Pictures of PNG files (ISO/IEC 15948) as bytes: the wrapper of libpng. Not which files there are
// (png_folder.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "data/picture_shape.h"

namespace fourfold::data {

/// The signature and the first chunk, which says how large the picture is.
inline constexpr std::size_t png_header_bytes = 33;

/// True if a file with these first bytes is a PNG by its signature.
bool is_png(std::span<const std::byte> first_bytes);

/// True if a file with these last bytes ends with the chunk that ends a PNG: it is not cut off, and
/// nothing follows the picture.
bool is_png_end(std::span<const std::byte> last_bytes);

/// The shape that a file's first bytes claim, within the bounds of picture_shape.h; or what is
/// wrong with them, such as "is no PNG: ...". That the rest of the file is good is not known.
std::variant<PictureShape, std::string> png_shape(std::span<const std::byte> first_bytes);

/// Decodes the bytes of a file; says what is wrong with them, or nothing when all is well. `shape`
/// is that of `png_shape`, `into` has its bytes; what they hold after a fault is not said.
///
/// Any kind of PNG becomes 8 bits of one channel (grey, with or without alpha) or three (colour,
/// with or without alpha, and palettes): 1, 2 and 4 bits of grey are spread over [0, 255], 16 bits
/// rounded to 8, and transparent pixels laid over black. Gamma and colour profiles are ignored.
/// Interlaced files are read. Checksums are compared, and bytes after the picture's end passed
/// over.
/// Memory: a few rows, and a pointer a row. For several threads at once. Errors: std::bad_alloc.
std::optional<std::string> decode_png(std::span<const std::byte> file, const PictureShape& shape,
                                      std::span<std::uint8_t> into);

/// The bytes of a PNG file of a picture of one or three channels, as decode_png reads it back.
std::string encode_png(std::span<const std::uint8_t> picture, const PictureShape& shape);

}  // namespace fourfold::data
