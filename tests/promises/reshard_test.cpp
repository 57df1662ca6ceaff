// How long it takes to plan how tensors pass between large meshes.
#include <gtest/gtest.h>

#include "base/stopwatch.h"
#include "promises/promise.h"
#include "reshard/paper_cases.h"
#include "reshard/reshard_plan.h"
#include "reshard/unit_tasks.h"

namespace fourfold::reshard {
namespace {

TEST(ReshardPromise, a_plan_of_128_to_128_ranks_takes_less_than_a_second) {
  const MeshPair pair = place_pair({256, 256}, "S01R", {16, 8}, "RS01", {16, 8});
  ReshardOptions options;
  options.strategy = Strategy::broadcast;
  options.ordering = Ordering::best;
  options.chunks = 1;
  options.links = {{0, 1}, {}};
  const Stopwatch watch;
  const ReshardPlan plan = make_plan(pair.from, pair.to, pair.host_of, options);
  EXPECT_EQ(plan.transfers.size(), 128U * 128U);
  test::expect_at_most("plan how a tensor passes from 128 ranks to 128", watch.seconds(), 1, "s");
}

TEST(ReshardPromise, unit_tasks_of_many_ranks_take_time_by_their_number) {
  // As many tasks as ranks: 4096 pairs of 4096 would be 16 million.
  const MeshPair grids = place_pair({4096, 4096}, "S0S1", {64, 64}, "S0S1", {64, 64});
  const Stopwatch watch;
  EXPECT_EQ(unit_tasks(grids.from, grids.to).size(), 4096U);
  test::expect_at_most("find the tasks between 4,096 ranks and 4,096", watch.seconds(), 1, "s");
}

}  // namespace
}  // namespace fourfold::reshard
