// Where buffers fit beside others, held against a look at each of them.
#include "compile/occupancy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace fourfold::compile {
namespace {

struct Taken {
  std::int64_t begin, bytes;
  std::vector<Interval> lives;
};

/// The end of each that is in the way is a candidate, as is 0; the lowest at which nothing is.
std::int64_t lowest_offset(const std::vector<Taken>& all, std::int64_t bytes,
                           const std::vector<Interval>& lives) {
  std::vector<Taken> in_the_way;
  std::vector<std::int64_t> candidates = {0};
  for (const Taken& one : all)
    if (overlap(one.lives, lives)) {
      in_the_way.push_back(one);
      candidates.push_back(one.begin + one.bytes);
    }
  std::ranges::sort(candidates);
  return *std::ranges::find_if(candidates, [&](std::int64_t offset) {
    return std::ranges::none_of(in_the_way, [&](const Taken& one) {
      return offset < one.begin + one.bytes && one.begin < offset + bytes;
    });
  });
}

/// Lives within a time of 400, some of them long.
std::vector<Interval> random_lives(std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return random() % bound; };
  std::vector<Interval> lives(1 + below(3));
  for (Interval& life : lives) {
    life.begin = below(400);
    life.end = std::min<std::size_t>(400, life.begin + below(below(4) == 0 ? 400 : 20));
  }
  std::ranges::sort(lives, {}, &Interval::begin);
  join(lives);
  return lives;
}

TEST(Occupancy, gives_the_lowest_place_that_is_free_in_all_lives) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    std::mt19937 random(seed);
    Occupancy memory;
    std::vector<Taken> all;
    for (int i = 0; i < 1500; ++i) {
      // Mostly as place_buffers asks, the largest first; sometimes anything.
      const auto bytes =
          static_cast<std::int64_t>(random() % 10 == 0 ? 1 + random() % 9 : 9 - i / 200);
      const std::vector<Interval> lives = random_lives(random);
      const std::int64_t offset = memory.lowest_offset(bytes, lives);
      ASSERT_EQ(offset, lowest_offset(all, bytes, lives)) << "seed " << seed << ", " << i;
      memory.add(offset, bytes, lives);
      all.push_back({offset, bytes, lives});
    }
  }
}

TEST(Occupancy, finds_gaps_between_what_is_alive_at_one_time) {
  const std::vector<Interval> lives = {{0, 9}};
  Occupancy memory;
  for (std::int64_t i = 1; i < 200; ++i) memory.add(10 * i, i == 190 ? 6 : 9, lives);
  EXPECT_EQ(memory.lowest_offset(10, lives), 0);
  memory.add(0, 9, lives);
  EXPECT_EQ(memory.lowest_offset(1, lives), 9);
  EXPECT_EQ(memory.lowest_offset(2, lives), 1906);
  EXPECT_EQ(memory.lowest_offset(5, lives), 1999);
  EXPECT_EQ(memory.lowest_offset(5, {{10, 12}}), 0);
}

/// What GPipe's placement asks for so many micro-batches: of each size, first what is kept from
/// forward to backward task, then what lives within a task. Answers with the looks this takes.
std::size_t looks_at_gpipe(std::size_t micros) {
  constexpr std::size_t task = 20;  // instructions
  Occupancy memory;
  for (std::int64_t bytes = 8; bytes > 2; --bytes)
    for (std::size_t micro = 0; micro < micros; ++micro) {
      const std::size_t forward = task * micro + static_cast<std::size_t>(bytes),
                        backward = task * (micros + micro) + static_cast<std::size_t>(bytes);
      const std::vector<std::vector<Interval>> lives = {
          {{forward, backward}}, {{forward, forward + 3}}, {{backward, backward + 2}}};
      for (const std::vector<Interval>& its : lives)
        memory.add(memory.lowest_offset(64 * bytes, its), 64 * bytes, its);
    }
  return memory.num_looks();
}

/// Near linear: logarithms of the number of stretches, and nothing that grows with its square.
TEST(Occupancy, looks_at_most_six_times_as_often_for_four_times_the_micro_batches) {
  for (const std::size_t micros : {256, 1024})
    EXPECT_LE(looks_at_gpipe(4 * micros), 6 * looks_at_gpipe(micros)) << micros;
}

TEST(Occupancy, makes_one_of_lives_that_meet_or_follow_one_another) {
  std::vector<Interval> lives = {{0, 3}, {2, 5}, {6, 6}, {8, 9}, {8, 8}};
  join(lives);
  EXPECT_EQ(lives, (std::vector<Interval>{{0, 6}, {8, 9}}));
}

}  // namespace
}  // namespace fourfold::compile
