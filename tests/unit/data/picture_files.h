// Files of pictures, made byte by byte from the descriptions of their formats and not by the code
// under test or its libraries.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/picture_shape.h"
#include "unit/data/token_files.h"

namespace fourfold::data {

/// A value that differs from pixel to pixel, channel to channel and picture to picture.
inline std::uint8_t made_value(std::int64_t picture, std::int64_t y, std::int64_t x,
                               std::int64_t channel) {
  return static_cast<std::uint8_t>(picture * 41 + y * 7 + x * 3 + channel * 89);
}

/// What a reader must give: order height, width, channel.
inline std::vector<std::uint8_t> made_picture(std::int64_t picture, const PictureShape& shape) {
  std::vector<std::uint8_t> bytes;
  for (std::int64_t y = 0; y < shape.height; ++y)
    for (std::int64_t x = 0; x < shape.width; ++x)
      for (std::int64_t c = 0; c < shape.channels; ++c)
        bytes.push_back(made_value(picture, y, x, c));
  return bytes;
}

/// A record of CIFAR: labels, then planes.
inline std::string cifar_record(const std::vector<int>& labels, std::int64_t picture) {
  std::string record;
  for (const int label : labels) record += static_cast<char>(label);
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < 32; ++y)
      for (std::int64_t x = 0; x < 32; ++x)
        record += static_cast<char>(made_value(picture, y, x, c));
  return record;
}

inline std::string cifar10_bytes(const std::vector<int>& labels) {
  std::string bytes;
  for (std::size_t i = 0; i < labels.size(); ++i)
    bytes += cifar_record({labels[i]}, static_cast<std::int64_t>(i));
  return bytes;
}

inline std::string big_endian(std::int64_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

inline std::string idx_header(const std::vector<std::int64_t>& dims) {
  std::string bytes = {0, 0, 8, static_cast<char>(dims.size())};
  for (const std::int64_t dim : dims) bytes += big_endian(dim);
  return bytes;
}
inline std::string idx_pictures(std::int64_t count, const PictureShape& shape) {
  std::string bytes = idx_header(
      shape.channels == 1 ? std::vector{count, shape.height, shape.width}
                          : std::vector{count, shape.height, shape.width, shape.channels});
  for (std::int64_t i = 0; i < count; ++i)
    for (const std::uint8_t value : made_picture(i, shape)) bytes += static_cast<char>(value);
  return bytes;
}
inline std::string idx_labels(const std::vector<int>& labels) {
  std::string bytes = idx_header({std::ssize(labels)});
  for (const int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

/// CRC-32 of a chunk of PNG.
inline std::uint32_t png_crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
  }
  return ~crc;
}
inline std::string png_chunk(const std::string& name, const std::string& body) {
  return big_endian(std::ssize(body)) + name + body + big_endian(png_crc(name + body));
}
/// A zlib stream of stored blocks.
inline std::string stored(const std::string& bytes) {
  constexpr std::size_t most = 65535;
  std::string stream = "\x78\x01";
  for (std::size_t at = 0;; at += most) {
    const std::string block = bytes.substr(at, most);
    const bool is_last = at + most >= bytes.size();
    const auto size = static_cast<std::uint16_t>(block.size());
    const auto inverse = static_cast<std::uint16_t>(~size);
    stream += static_cast<char>(is_last ? 1 : 0);
    for (const std::uint16_t number : {size, inverse}) {
      stream += static_cast<char>(number & 0xff);
      stream += static_cast<char>(number >> 8);
    }
    stream += block;
    if (is_last) break;
  }
  std::uint32_t low = 1, high = 0;
  for (const char byte : bytes) {
    low = (low + static_cast<unsigned char>(byte)) % 65521;
    high = (high + low) % 65521;
  }
  return stream + big_endian(std::int64_t{high} << 16 | low);
}

/// What a PNG is made of. `samples` has, for each pixel in order of rows, the values of its
/// channels, each of `depth` bits.
struct PngParts {
  std::int64_t height = 0, width = 0;
  int depth = 8, color = 2;  // 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGB with alpha
  std::vector<int> samples;
  std::string before_pixels = {};  // chunks such as PLTE and tRNS
  bool is_interlaced = false;

  int channels() const { return color == 2 ? 3 : color == 4 ? 2 : color == 6 ? 4 : 1; }
};

/// The rows of every `step`th pixel, from the first on, each after the filter byte 0.
inline std::string png_rows(const PngParts& png, std::int64_t y0, std::int64_t x0,
                            std::int64_t y_step, std::int64_t x_step) {
  std::string bytes;
  for (std::int64_t y = y0; y < png.height && x0 < png.width; y += y_step) {
    bytes += '\0';
    unsigned bits = 0;
    int filled = 0;
    for (std::int64_t x = x0; x < png.width; x += x_step)
      for (int c = 0; c < png.channels(); ++c) {
        const auto at = static_cast<std::size_t>((y * png.width + x) * png.channels() + c);
        bits = bits << png.depth | static_cast<unsigned>(png.samples[at]);
        for (filled += png.depth; filled >= 8; filled -= 8)
          bytes += static_cast<char>(bits >> (filled - 8) & 0xff);
      }
    if (filled > 0) bytes += static_cast<char>(bits << (8 - filled) & 0xff);
  }
  return bytes;
}

inline const std::string png_signature = "\x89PNG\r\n\x1a\n";

inline std::string png_header(const PngParts& png) {
  const std::string kind = {static_cast<char>(png.depth), static_cast<char>(png.color), 0, 0,
                            static_cast<char>(png.is_interlaced ? 1 : 0)};
  return png_signature + png_chunk("IHDR", big_endian(png.width) + big_endian(png.height) + kind);
}

inline std::string png_bytes(const PngParts& png) {
  std::string rows;
  if (png.is_interlaced) {
    // Adam7: first row and column, then the steps, of each pass.
    constexpr std::array<std::array<int, 4>, 7> passes = {{{0, 0, 8, 8},
                                                           {0, 4, 8, 8},
                                                           {4, 0, 8, 4},
                                                           {0, 2, 4, 4},
                                                           {2, 0, 4, 2},
                                                           {0, 1, 2, 2},
                                                           {1, 0, 2, 1}}};
    for (const auto& [y, x, y_step, x_step] : passes) rows += png_rows(png, y, x, y_step, x_step);
  } else {
    rows = png_rows(png, 0, 0, 1, 1);
  }
  return png_header(png) + png.before_pixels + png_chunk("IDAT", stored(rows)) +
         png_chunk("IEND", "");
}

/// A plain PNG of `made_picture`.
inline PngParts made_png(std::int64_t picture, const PictureShape& shape) {
  PngParts png = {shape.height, shape.width, 8, shape.channels == 1 ? 0 : 2, {}};
  for (const std::uint8_t value : made_picture(picture, shape)) png.samples.push_back(value);
  return png;
}

/// Also makes the file's folder.
inline void write_picture_file(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_bytes(path, bytes);
}

}  // namespace fourfold::data
