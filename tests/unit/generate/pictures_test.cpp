// Several pictures on one sheet. That pictures follow from seed and number is tested by commands
// (system/unet_test.cpp), their values against a reference in golden/.
#include "generate/pictures.h"

#include <gtest/gtest.h>

namespace fourfold::generate {
namespace {

TEST(OnOneSheet, pictures_stand_row_by_row_with_dark_gaps) {
  const Pictures pictures{{1, 2, 1}, {{1, 2}, {3, 4}, {5, 6}}};
  data::PictureShape shape;
  const std::vector<std::uint8_t> sheet = on_one_sheet(pictures, 2, shape);
  EXPECT_EQ(shape, (data::PictureShape{3, 5, 1}));
  EXPECT_EQ(sheet, (std::vector<std::uint8_t>{1, 2, 0, 3, 4,  //
                                              0, 0, 0, 0, 0,  //
                                              5, 6, 0, 0, 0}));
}

TEST(OnOneSheet, a_pixel_keeps_its_channels) {
  const Pictures pictures{{1, 1, 3}, {{1, 2, 3}, {4, 5, 6}}};
  data::PictureShape shape;
  EXPECT_EQ(on_one_sheet(pictures, 2, shape),
            (std::vector<std::uint8_t>{1, 2, 3, 0, 0, 0, 4, 5, 6}));
  EXPECT_EQ(shape, (data::PictureShape{1, 3, 3}));
}

}  // namespace
}  // namespace fourfold::generate
