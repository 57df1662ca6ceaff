// Replicas are equal at every step, and kernels that the thread sanitizer can watch equal the
// serial run. All else of that equality stands in any_layout_test.cpp.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/format.h"
#include "support/grids.h"
#include "support/outcome.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::RunSetup;

TEST(Equivalence, of_replicas_at_every_step) {
  RunSetup setup = test::first_model();
  test::set_grid(setup, {.x = 2, .y = 2, .z = 2, .data = 2});
  GridRun grid(setup);
  std::mutex mutex;
  std::map<std::string, std::set<std::uint64_t>> digests;  // by step and tensor
  grid.run([&](GridRun::RankRun& rank) {
    rank.executor.run(op::ProgramKind::init, test::SmallRun::block(0, 0, 1));
    auto feeder = test::random_batch(setup);
    for (std::int64_t step = 0; step < 3; ++step) {
      rank.executor.run(op::ProgramKind::train, test::SmallRun::block(step, test::lr, 1), &feeder);
      for (const auto& [name, digest] : GridRun::digests(rank)) {
        const std::lock_guard lock(mutex);
        digests[format("step {} {}", step, name)].insert(digest);
      }
    }
  });
  std::set<std::uint64_t> different;
  for (const auto& [name, values] : digests) {
    EXPECT_EQ(values.size(), 1U) << name;
    different.insert(values.begin(), values.end());
  }
  EXPECT_GT(different.size(), digests.size() / 2) << "digests tell states apart";
}

/// What the thread sanitizer runs: no library, no OpenMP.
TEST(Equivalence, of_reference_kernels_on_2_2_2) {
  RunSetup setup = test::first_model();
  setup.reference_kernels = true;
  setup.plan.global_batch_size = 16;
  test::set_grid(setup, {});
  const test::Tensors weights = test::rough_weights(setup);
  const auto serial = test::run_job(setup, GridRun::compile_job(setup), weights);
  test::set_grid(setup, {.x = 2, .y = 2, .z = 2, .data = 1});
  test::Worst worst;
  compare(test::run_job(setup, GridRun::compile_job(setup), weights), serial, 1e-12, worst);
  test::print(worst, "reference kernels");
}

}  // namespace
}  // namespace fourfold
