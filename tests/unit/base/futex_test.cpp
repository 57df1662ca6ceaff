// A word that threads sleep on: no change is missed, whoever comes first.
#include "base/futex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace fourfold {
namespace {

TEST(Futex, gives_what_the_word_is_now_and_waits_only_while_it_is_the_value) {
  Futex futex(3);
  EXPECT_EQ(futex.load(), 3U);
  EXPECT_EQ(futex.wait(2), 3U);
  EXPECT_FALSE(futex.exchange_if(2, 9));
  EXPECT_EQ(futex.load(), 3U);
  EXPECT_TRUE(futex.exchange_if(3, 4));
  futex.set_bits(1);
  EXPECT_EQ(futex.wait(4), 5U);
  futex.store(7);
  EXPECT_EQ(futex.load(), 7U);
}

/// A wake that is missed leaves this test asleep for ever.
TEST(Futex, wakes_all_who_sleep_each_time_that_the_word_changes) {
  constexpr std::uint32_t rounds = 20'000;
  Futex turn, answer;
  int shared = 0;  // told by `turn`
  std::vector<std::jthread> sleepers;
  std::atomic<std::uint32_t> answered{0}, wrong{0};
  constexpr std::uint32_t num_sleepers = 3;
  for (std::uint32_t i = 0; i < num_sleepers; ++i)
    sleepers.emplace_back([&] {
      for (std::uint32_t round = 0; round < rounds; ++round) {
        const std::uint32_t now = turn.wait(round);
        if (now != round + 1 || shared != static_cast<int>(now)) ++wrong;
        if (++answered % num_sleepers == 0) answer.store(now);
      }
    });
  for (std::uint32_t round = 0; round < rounds; ++round) {
    shared = static_cast<int>(round + 1);
    if (!turn.exchange_if(round, round + 1)) ++wrong;
    for (std::uint32_t now = round; now != round + 1;) now = answer.wait(now);
  }
  sleepers.clear();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace fourfold
