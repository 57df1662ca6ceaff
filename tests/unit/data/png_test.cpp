#include "data/png.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unit/data/expect_error.h"
#include "unit/data/picture_files.h"

namespace fourfold::data {
namespace {

using Values = std::vector<int>;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Decoded {
  PictureShape shape;
  Values values;
  std::string fault;
};

Decoded decode(const std::string& file) {
  const auto shape = png_shape(bytes_of(file).first(std::min(file.size(), png_header_bytes)));
  if (const auto* fault = std::get_if<std::string>(&shape)) return {{}, {}, *fault};
  Decoded result{std::get<PictureShape>(shape), {}, {}};
  std::vector<std::uint8_t> into(static_cast<std::size_t>(result.shape.size_bytes()));
  result.fault = decode_png(bytes_of(file), result.shape, into).value_or("");
  result.values.assign(into.begin(), into.end());
  return result;
}

void expect_decodes(const PngParts& png, const PictureShape& shape, const Values& values) {
  for (const bool is_interlaced : {false, true}) {
    PngParts parts = png;
    parts.is_interlaced = is_interlaced;
    const Decoded decoded = decode(png_bytes(parts));
    EXPECT_EQ(decoded.fault, "");
    EXPECT_EQ(decoded.shape, shape);
    EXPECT_EQ(decoded.values, values) << (is_interlaced ? "interlaced" : "row by row");
  }
}

TEST(Png, eight_bits_of_grey_and_of_colour_are_themselves) {
  for (const std::int64_t channels : {1, 3}) {
    const PictureShape shape = {11, 13, channels};
    const auto made = made_picture(5, shape);
    expect_decodes(made_png(5, shape), shape, Values(made.begin(), made.end()));
  }
}

TEST(Png, few_bits_of_grey_are_spread) {
  expect_decodes({2, 3, 1, 0, {0, 1, 1, 1, 0, 0}}, {2, 3, 1}, {0, 255, 255, 255, 0, 0});
  expect_decodes({1, 4, 2, 0, {0, 1, 2, 3}}, {1, 4, 1}, {0, 85, 170, 255});
  expect_decodes({1, 3, 4, 0, {0, 7, 15}}, {1, 3, 1}, {0, 119, 255});
}

TEST(Png, sixteen_bits_are_rounded) {
  // 65535 / 255 = 257 steps of each value of 8 bits.
  expect_decodes({1, 5, 16, 0, {0, 128, 129, 257 * 100 + 128, 65535}}, {1, 5, 1},
                 {0, 0, 1, 100, 255});
  expect_decodes({1, 2, 16, 2, {257, 514, 771, 65535, 0, 257 * 7}}, {1, 2, 3},
                 {1, 2, 3, 255, 0, 7});
}

TEST(Png, a_palette_is_colour) {
  PngParts png = {2, 2, 2, 3, {0, 1, 2, 0}};
  png.before_pixels = png_chunk("PLTE", std::string("\x0a\x14\x1e\xff\x00\x00\x01\x02\x03", 9));
  expect_decodes(png, {2, 2, 3}, {10, 20, 30, 255, 0, 0, 1, 2, 3, 10, 20, 30});
  // Transparent entries are laid over black.
  png.before_pixels += png_chunk("tRNS", std::string("\xff\x00", 2));
  expect_decodes(png, {2, 2, 3}, {10, 20, 30, 0, 0, 0, 1, 2, 3, 10, 20, 30});
}

TEST(Png, transparent_pixels_are_laid_over_black) {
  expect_decodes({1, 3, 8, 4, {200, 255, 200, 0, 200, 128}}, {1, 3, 1}, {200, 0, 100});
  expect_decodes({1, 2, 8, 6, {255, 100, 0, 51, 9, 8, 7, 255}}, {1, 2, 3}, {51, 20, 0, 9, 8, 7});
  // A single transparent value, without an alpha channel.
  PngParts grey = {1, 3, 8, 0, {4, 5, 6}};
  grey.before_pixels = png_chunk("tRNS", std::string("\x00\x05", 2));
  expect_decodes(grey, {1, 3, 1}, {4, 0, 6});
}

TEST(Png, what_says_nothing_about_pixels_is_passed_over) {
  PngParts png = made_png(2, {3, 3, 3});
  png.before_pixels = png_chunk("gAMA", big_endian(45455)) +
                      png_chunk("iCCP", std::string("broken\0\0no profile", 18)) +
                      png_chunk("tEXt", "Comment: none");
  const auto made = made_picture(2, {3, 3, 3});
  expect_decodes(png, {3, 3, 3}, Values(made.begin(), made.end()));
  EXPECT_EQ(decode(png_bytes(png) + "and more").fault, "");
}

TEST(Png, a_file_that_is_cut_off_anywhere_is_a_fault) {
  const std::string whole = png_bytes(made_png(1, {4, 4, 3}));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(decode(whole.substr(0, size)).fault, "") << size << " of " << whole.size();
  expect_words(decode(whole.substr(0, 20)).fault, {"is cut off within its header"});
  expect_words(decode(whole.substr(0, 50)).fault, {"cannot be decoded", "ends too early"});
}

TEST(Png, any_flipped_bit_of_the_picture_is_a_fault) {
  const std::string whole = png_bytes(made_png(1, {4, 4, 3}));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] ^= 0x10;
    EXPECT_NE(decode(damaged).fault, "") << "byte " << at;
  }
}

TEST(Png, headers_that_claim_too_much_are_faults_before_memory_is_asked) {
  const auto header = [](std::int64_t height, std::int64_t width, int color) {
    PngParts png = {height, width, 8, color, {}};
    return png_header(png) + png_chunk("IEND", "");
  };
  expect_words(decode(header(0x7fffffff, 0x7fffffff, 2)).fault, {"expected 1 to 16384"});
  expect_words(decode(header(0, 5, 2)).fault, {"is 0 high and 5 wide"});
  expect_words(decode(header(16384, 16384, 0)).fault, {"256 MiB", "at most 64.0 MiB"});
  expect_words(decode(header(5, 5, 1)).fault, {"has the colour type 1"});
  expect_words(decode(header(5, 5, 2)).fault, {"cannot be decoded"});
  expect_words(decode("GIF89a").fault, {"is no PNG"});
  EXPECT_FALSE(is_png(bytes_of("\x89PN")));
}

TEST(Png, a_pixel_stream_of_another_size_is_a_fault) {
  PngParts png = made_png(1, {4, 4, 3});
  const std::string rows = png_rows(png, 0, 0, 1, 1);
  for (const std::string& stream : {rows.substr(1), rows + "more", std::string()}) {
    const std::string file =
        png_header(png) + png_chunk("IDAT", stored(stream)) + png_chunk("IEND", "");
    expect_words(decode(file).fault, {"cannot be decoded"});
  }
}

TEST(Png, what_is_encoded_reads_back) {
  for (const PictureShape& shape : {PictureShape{5, 7, 3}, PictureShape{4, 9, 1}}) {
    const std::vector<std::uint8_t> picture = made_picture(3, shape);
    const Decoded decoded = decode(encode_png(picture, shape));
    EXPECT_EQ(decoded.fault, "");
    EXPECT_EQ(decoded.shape, shape);
    EXPECT_EQ(decoded.values, Values(picture.begin(), picture.end()));
  }
}

}  // namespace
}  // namespace fourfold::data
