#include "reshard/slices.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace fourfold::reshard {
namespace {

TEST(Slices, of_whole_rows_are_one_run) {
  EXPECT_EQ(slices_of({{2, 4}, {0, 8}}, {{1, 5}, {0, 8}}, 4),
            (std::vector<Slice>{{32, 1, 64, 64}}));
  EXPECT_EQ(slices_of({{2, 3}, {0, 4}, {0, 8}}, {{2, 4}, {0, 4}, {0, 8}}, 2),
            (std::vector<Slice>{{0, 1, 64, 64}}));
  EXPECT_EQ(slices_of({}, {}, 8), (std::vector<Slice>{{0, 1, 8, 8}}));
}

TEST(Slices, of_columns_are_rows_with_a_pitch) {
  EXPECT_EQ(slices_of({{0, 4}, {2, 5}}, {{0, 4}, {0, 8}}, 4), (std::vector<Slice>{{8, 4, 12, 32}}));
  // Whole outer dims go on with the same pitch.
  EXPECT_EQ(slices_of({{0, 2}, {0, 4}, {1, 2}}, {{0, 2}, {0, 4}, {0, 3}}, 1),
            (std::vector<Slice>{{1, 8, 1, 3}}));
}

TEST(Slices, of_boxes_that_break_more_dims_are_several) {
  EXPECT_EQ(slices_of({{1, 3}, {1, 3}, {1, 3}}, {{0, 4}, {0, 4}, {0, 4}}, 1),
            (std::vector<Slice>{{21, 2, 2, 4}, {37, 2, 2, 4}}));
}

TEST(Slices, know_padding_at_the_ends_of_dims) {
  EXPECT_EQ(slices_of({{4, 6}, {0, 3}}, {{4, 6}, {0, 3}}, Shape{2, 4}, 1),
            (std::vector<Slice>{{0, 2, 3, 4}}));
}

TEST(Slices, of_nothing_are_none_and_of_what_is_not_there_an_error) {
  EXPECT_TRUE(slices_of({{2, 2}}, {{0, 4}}, 4).empty());
  EXPECT_THROW(slices_of({{2, 5}}, {{0, 4}}, 4), InternalError);
}

TEST(Box, is_shared_evenly_where_a_dim_divides) {
  const std::vector<Box> shares = shares_of({{0, 3}, {4, 12}}, 4);
  EXPECT_EQ(shares[1], (Box{{0, 3}, {6, 8}}));
  EXPECT_EQ(shares_of({{0, 7}}, 3), (std::vector<Box>{{{0, 2}}, {{2, 4}}, {{4, 7}}}));
  EXPECT_EQ(shares_of({{0, 1}, {0, 2}}, 3)[0], (Box{{0, 1}, {0, 0}}));
}

TEST(Box, is_cut_into_chunks_that_are_not_empty) {
  EXPECT_EQ(chunks_of({{0, 4}, {0, 4}}, 2), (std::vector<Box>{{{0, 2}, {0, 4}}, {{2, 4}, {0, 4}}}));
  // Two rows, each in three: as many as six, for five.
  EXPECT_EQ(chunks_of({{0, 2}, {0, 6}}, 5).size(), 6U);
  EXPECT_EQ(chunks_of({{0, 2}, {0, 6}}, 100).size(), 12U);
  EXPECT_EQ(chunks_of({}, 3).size(), 1U);
  EXPECT_TRUE(chunks_of({{1, 1}}, 3).empty());
}

}  // namespace
}  // namespace fourfold::reshard
