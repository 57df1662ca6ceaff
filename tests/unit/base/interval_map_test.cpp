#include "base/interval_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace fourfold {
namespace {

/// The same kept address by address.
class Plain {
 public:
  explicit Plain(std::size_t size) : values_(size) {}
  std::string& operator[](std::int64_t at) { return values_[static_cast<std::size_t>(at)]; }

 private:
  std::vector<std::string> values_;
};

std::string text(const IntervalMap<std::string>& map, std::int64_t begin, std::int64_t end) {
  std::string all;
  map.visit_runs(begin, end, [&](std::int64_t start, const std::string& value) {
    // A run ends where the next one begins, or beyond `end`.
    all += value + "@" + std::to_string(std::max(start, begin)) + " ";
  });
  return all;
}

TEST(IntervalMap, holds_what_was_assigned_and_changed_last) {
  IntervalMap<std::string> map("-");
  map.assign(10, 20, "a");
  map.assign(15, 30, "b");
  EXPECT_EQ(text(map, 0, 40), "-@0 a@10 b@15 -@30 ");
  map.change(12, 16, [](std::string& value) { value += "!"; });
  EXPECT_EQ(text(map, 0, 40), "-@0 a@10 a!@12 b!@15 b@16 -@30 ");
  map.assign(11, 35, "c");
  EXPECT_EQ(text(map, 0, 40), "-@0 a@10 c@11 -@35 ");
  map.assign(20, 20, "nothing");
  EXPECT_EQ(text(map, 12, 13), "c@12 ");
}

/// Ranges of all lengths: thousands of runs, which assigning then takes away leaf by leaf.
TEST(IntervalMap, equals_a_list_of_all_addresses) {
  constexpr std::int64_t size = 6000;
  IntervalMap<std::string> map("");
  Plain plain(size);
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 6000; ++round) {
    const std::int64_t begin = below(size), longest = round % 500 == 499 ? size : 1 + below(6);
    const std::int64_t end = std::min(size, begin + 1 + below(longest));
    const std::string word = std::to_string(round);
    if (round % 3 == 0) {
      map.change(begin, end, [&](std::string& value) { value = word + value.substr(0, 8); });
      for (std::int64_t at = begin; at < end; ++at) plain[at] = word + plain[at].substr(0, 8);
    } else {
      map.assign(begin, end, word);
      for (std::int64_t at = begin; at < end; ++at) plain[at] = word;
    }
    const std::int64_t from = below(size), to = std::min(size, from + 1 + below(300));
    std::int64_t next = from;  // the first address that no run has said anything about
    std::string last = "of no run";
    map.visit_runs(from, to, [&](std::int64_t start, const std::string& value) {
      for (; next < start; ++next) ASSERT_EQ(plain[next], last) << round << " at " << next;
      last = value;
    });
    for (; next < to; ++next) ASSERT_EQ(plain[next], last) << round << " at " << next;
  }
}

}  // namespace
}  // namespace fourfold
