// A row of what `scripts/check --bench` prints: a promise about time, its limit and what was
// measured. Header only.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace fourfold::test {

/// Prints the row, and fails where more than the limit was measured. Limits hold on a quiet machine
/// and for a build with optimization.
inline void expect_at_most(const std::string& promise, double measured, double limit,
                           const std::string& unit) {
  std::printf("promise: %-72s %8.3g %8.3g %s%s\n", promise.c_str(), limit, measured, unit.c_str(),
              measured <= limit ? "" : "  BROKEN");
  std::fflush(stdout);
  EXPECT_LE(measured, limit) << promise;
}

}  // namespace fourfold::test
