// How long the planner takes for the largest published model, in units of this machine's own pace.
#include <gtest/gtest.h>

#include <string>

#include "promises/promise.h"
#include "support/cpu_pace.h"
#include "support/in_process.h"

namespace fourfold {
namespace {

double units_of(const std::string& options) {
  const test::CpuWork work;
  const test::Outcome outcome = test::run_here(
      "plan " FOURFOLD_SOURCE_DIR
      "/configs/paper/gpt-80b.yaml --machine perlmutter-40gb --ranks 1024 --format json " +
      options);
  const double units = work.units();
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  return units;
}

/// Ten seconds by the clock. Forty units are 9.4 s of two cores that do a unit in 0.23 s, 5.5 s by
/// the clock.
TEST(PlanPromise, the_largest_published_model_is_planned_on_1024_ranks_within_ten_seconds) {
  test::expect_at_most("plan gpt-80b with any number of stages on 1,024 ranks",
                       units_of("--top 100000 --simulate 0 --set parallel.pipeline.stages=auto"),
                       100, "units");
}

/// A minute by the clock. Fifty-six units are 13 s of the same cores, 7 s by the clock.
TEST(PlanPromise, its_ten_best_plans_are_simulated_within_a_minute) {
  test::expect_at_most("plan it and simulate its ten best plans", units_of(""), 140, "units");
}

}  // namespace
}  // namespace fourfold
