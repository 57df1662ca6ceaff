// Ranks in their two forms, and places on a mesh.
#include "base/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace fourfold {
namespace {

TEST(Ranks, are_what_was_put_in_whether_they_grow_by_equal_steps_or_not) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Rank> wanted;
    Ranks ranks;
    const std::size_t first = random() % 50, count = random() % 12, step = 1 + random() % 4;
    for (std::size_t i = 0; i < count; ++i) {
      const bool jumps = round % 3 != 0 && random() % 4 == 0;
      wanted.emplace_back(jumps ? random() % 60 : first + i * step);
      ranks.push_back(wanted.back());
    }
    ASSERT_EQ(ranks.size(), wanted.size());
    EXPECT_TRUE(std::equal(ranks.begin(), ranks.end(), wanted.begin(), wanted.end()));
    for (std::size_t rank = 0; rank < 100; ++rank) {
      const auto place = std::find(wanted.begin(), wanted.end(), Rank(rank));
      const auto expected = static_cast<std::size_t>(place - wanted.begin());
      EXPECT_EQ(ranks.position(Rank(rank)),
                place == wanted.end() ? std::nullopt : std::optional(expected));
    }
    Ranks again;
    for (const Rank rank : ranks) again.push_back(rank);
    EXPECT_EQ(again, ranks);
    Ranks some;
    const std::size_t from = random() % (count + 1), length = random() % (count - from + 1);
    for (std::size_t i = 0; i < length; ++i) some.push_back(wanted[from + i]);
    EXPECT_EQ(ranks.range(from, length), some);
    Ranks spaced;
    const std::size_t gap = 1 + random() % 3;
    for (std::size_t i = from; i < count; i += gap) spaced.push_back(wanted[i]);
    EXPECT_EQ(ranks.range(from, spaced.size(), gap), spaced);
  }
}

TEST(Ranks, of_one_sequence_are_equal_however_they_were_made) {
  EXPECT_EQ((Ranks{Rank(4), Rank(5), Rank(6)}), Ranks(Rank(4), 3));
  EXPECT_EQ((Ranks{Rank(4), Rank(7), Rank(10)}), Ranks(Rank(4), 3, 3));
  EXPECT_EQ(Ranks(Rank(4), 1), Ranks(Rank(4), 1, 3));
  EXPECT_EQ(Ranks(), Ranks(Rank(7), 0));
  EXPECT_FALSE((Ranks{Rank(4), Rank(6), Rank(5)}) == Ranks(Rank(4), 3));
}

TEST(Mesh, knows_the_coordinates_of_its_ranks_alone) {
  const Mesh mesh{"m", {{"a", 2}, {"b", 3}}, Ranks(Rank(10), 6)};
  EXPECT_EQ(mesh.coordinates_of(Rank(14)), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(mesh.coordinates_of(Rank(16)), std::nullopt);
  EXPECT_EQ(mesh.coordinates_of(Rank(9)), std::nullopt);
}

}  // namespace
}  // namespace fourfold
