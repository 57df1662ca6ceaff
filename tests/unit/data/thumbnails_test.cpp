#include "data/thumbnails.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"

namespace fourfold::data {
namespace {

using Lines = std::vector<std::string>;

std::vector<std::uint8_t> filled(const PictureShape& shape) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(shape.size_bytes()), 9);
}

TEST(Thumbnails, a_letter_is_the_mean_of_its_place_between_the_darkest_and_the_brightest) {
  EXPECT_EQ(thumbnail(std::vector<std::uint8_t>{0, 255, 255, 0}, {2, 2, 1}),
            (Lines{"  @@", "@@  "}));
  EXPECT_EQ(thumbnail(std::vector<std::uint8_t>{100, 110, 120}, {1, 3, 1}), (Lines{"  ++@@"}));
  // Green is brighter than red, and red than blue.
  EXPECT_EQ(thumbnail(std::vector<std::uint8_t>{255, 0, 0, 0, 255, 0, 0, 0, 255}, {1, 3, 3}),
            (Lines{"::@@  "}));
}

TEST(Thumbnails, of_any_shape_have_lines_of_one_width_and_keep_within_bounds) {
  for (const PictureShape& shape : {PictureShape{1, 1, 1},
                                    {1, 2000, 1},
                                    {2000, 1, 3},
                                    {32, 32, 3},
                                    {7, 5, 1},
                                    {5, 700, 3},
                                    {700, 5, 1},
                                    {24, 24, 1},
                                    {480, 640, 3}}) {
    const Lines lines = thumbnail(filled(shape), shape);
    ASSERT_FALSE(lines.empty()) << shape.text();
    EXPECT_LE(lines.size(), 12U) << shape.text();
    for (const std::string& line : lines) {
      EXPECT_EQ(line.size(), lines[0].size()) << shape.text();
      EXPECT_GE(line.size(), 1U) << shape.text();
      EXPECT_LE(line.size(), 24U) << shape.text();
    }
  }
  EXPECT_EQ(thumbnail(filled({32, 32, 3}), {32, 32, 3}).size(), 12U);
}

TEST(Thumbnails, stand_beside_each_other_below_their_captions) {
  const std::string long_name(60, 'n');
  const std::vector<Captioned> pictures = {
      {"0: a", {"@@", "@@"}}, {"1: \x1b" + long_name, {"@"}}, {"2: c", {"@"}}, {"3: d", {"@"}}};
  const Lines lines = split(side_by_side(pictures), '\n');
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0].substr(0, 31), "0: a                       1: ?");
  EXPECT_EQ(lines[0].substr(54), "2: c");
  EXPECT_EQ(lines[2], "@@");
  EXPECT_EQ(lines[3], "");
  EXPECT_EQ(lines[4], "3: d");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80U);
}

}  // namespace
}  // namespace fourfold::data
