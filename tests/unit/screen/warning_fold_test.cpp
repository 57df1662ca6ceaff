#include "screen/warning_fold.h"

#include <gtest/gtest.h>

namespace fourfold::screen {
namespace {

TEST(WarningFold, a_text_is_new_once_and_counted_then) {
  WarningFold fold;
  EXPECT_TRUE(fold.is_new("a"));
  EXPECT_FALSE(fold.is_new("a"));
  EXPECT_TRUE(fold.is_new("b"));
  EXPECT_EQ(fold.counted(), std::vector<std::string>{"... and 1 more rank: a"});
  EXPECT_TRUE(fold.counted().empty());
  EXPECT_FALSE(fold.is_new("a"));
  EXPECT_FALSE(fold.is_new("a"));
  EXPECT_EQ(fold.counted(), std::vector<std::string>{"... and 2 more ranks: a"});
}

TEST(RankTag, it_names_rank_host_and_place) {
  Mesh mesh{"all", {{"data", 2}, {"z", 1}, {"y", 2}, {"x", 2}}, {}};
  for (std::size_t rank = 0; rank < 8; ++rank) mesh.ranks.push_back(Rank(rank));
  EXPECT_EQ(grid_place(mesh, 5), "d1z0y0x1");
  EXPECT_EQ(grid_place(mesh, 8), "");
  EXPECT_EQ(rank_tag(17, "n042", "d0z1y0x1"), "[r017 n042 d0z1y0x1]");
  EXPECT_EQ(rank_tag(0, "n", ""), "[r000 n]");
}

}  // namespace
}  // namespace fourfold::screen
