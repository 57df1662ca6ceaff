// Work on all cores: each part once, and an exception that comes back.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace fourfold {
namespace {

TEST(AllCores, do_each_part_once) {
  for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
    std::vector<std::atomic<int>> done(count);
    for_each_on_all_cores(count, [&](std::size_t i) { ++done[i]; });
    for (const auto& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(AllCores, end_early_with_what_a_part_threw) {
  std::atomic<int> begun{0};
  const auto run = [&] {
    for_each_on_all_cores(100'000, [&](std::size_t i) {
      ++begun;
      if (i == 3) throw std::runtime_error("part 3");
      std::this_thread::yield();  // to the part that throws, on a machine with other work
    });
  };
  try {
    run();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "part 3");
  }
  EXPECT_LT(begun, 100'000);
}

}  // namespace
}  // namespace fourfold
