// The thread sanitizer sees what no barrier of an emulated kernel orders, and no more.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "numerics/cuda/missing_barrier.h"

namespace fourfold::numerics {
namespace {

TEST(CudaRaces, a_barrier_orders_what_threads_write) {
  std::vector<int> values(64), expected;
  std::iota(values.begin(), values.end(), 0);
  expected.assign(values.rbegin(), values.rend());
  reverse_64(values.data(), Barrier::there);
  EXPECT_EQ(values, expected);
}

// Run by a test that waits for the report.
TEST(CudaRaces, DISABLED_without_a_barrier_there_is_a_report) {
  std::vector<int> values(64);
  reverse_64(values.data(), Barrier::missing);
}

}  // namespace
}  // namespace fourfold::numerics
