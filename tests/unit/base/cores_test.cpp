#include "base/cores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace fourfold {
namespace {

std::vector<int> share(const std::vector<int>& cores, std::size_t place, std::size_t count) {
  const auto part = share_of_cores(cores, place, count);
  return {part.begin(), part.end()};
}

TEST(Cores, fewer_members_than_cores_have_all_of_them_between_them) {
  const std::vector<int> cores = {4, 5, 6, 7, 12, 13, 14};
  EXPECT_EQ(share(cores, 0, 3), (std::vector{4, 5}));
  EXPECT_EQ(share(cores, 1, 3), (std::vector{6, 7}));
  EXPECT_EQ(share(cores, 2, 3), (std::vector{12, 13, 14}));
  EXPECT_EQ(share(cores, 0, 1), cores);
}

TEST(Cores, more_members_than_cores_share_them_equally_or_not_at_all) {
  const std::vector<int> cores = {2, 9};
  std::vector<int> of_all;
  for (std::size_t place = 0; place < 6; ++place)
    for (const int core : share(cores, place, 6)) of_all.push_back(core);
  EXPECT_EQ(of_all, (std::vector{2, 2, 2, 9, 9, 9}));
  for (std::size_t place = 0; place < 3; ++place) EXPECT_TRUE(share(cores, place, 3).empty());
  EXPECT_TRUE(share({}, 0, 2).empty());
}

TEST(Cores, a_thread_and_those_that_it_starts_keep_to_their_cores) {
  const std::vector<int> all = usable_cores();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(num_usable_cores(), static_cast<int>(all.size()));
  std::vector<int> own, started;
  bool was_kept = false;
  std::thread([&] {
    was_kept = keep_to_cores(std::span(all).last(1));
    own = usable_cores();
    std::thread([&] { started = usable_cores(); }).join();
  }).join();
  EXPECT_TRUE(was_kept);
  EXPECT_EQ(own, std::vector{all.back()});
  EXPECT_EQ(started, own);
  EXPECT_EQ(usable_cores(), all) << "of the thread that started it";
}

TEST(Cores, what_the_system_refuses_changes_nothing) {
  const std::vector<int> before = usable_cores();
  EXPECT_FALSE(keep_to_cores({}));
  const std::vector<int> bad = {-1};
  EXPECT_FALSE(keep_to_cores(bad));
  EXPECT_EQ(usable_cores(), before);
}

TEST(Cores, places_put_cores_in_another_order_and_lose_none) {
  std::vector<int> cores = in_order_of_places(usable_cores());
  std::ranges::sort(cores);
  EXPECT_EQ(cores, usable_cores());
  EXPECT_EQ(in_order_of_places({1'000'000, 3}), (std::vector{1'000'000, 3}));
}

TEST(Cores, a_limit_on_time_counts_as_so_many_cores) {
  EXPECT_EQ(cores_within(64, 2.0), 2);
  EXPECT_EQ(cores_within(64, 2.9), 2) << "a third thread would be stopped, and the others wait";
  EXPECT_EQ(cores_within(64, 0.1), 1);
  EXPECT_EQ(cores_within(4, 8.0), 4);
  EXPECT_EQ(cores_within(64, std::nullopt), 64);
  EXPECT_EQ(cores_within(0, std::nullopt), 1);
  EXPECT_LE(num_usable_cores(), static_cast<int>(usable_cores().size()));
}

}  // namespace
}  // namespace fourfold
