// Collectives beside computation or not: not one bit of a run depends on it.
#include <gtest/gtest.h>

#include <cstdio>

#include "program/text.h"
#include "support/long_run.h"
#include "support/trained_weights.h"
#include "verify/verify_job.h"

namespace fourfold {
namespace {

using test::RunSetup;

/// The 30 grids of 2 to 8 ranks with 1, 2 or 4 along each axis; without long tests a few that have
/// every pair of axes.
std::vector<plan::Grid> grids(bool is_slow) {
  if (!is_long_run() && is_slow) return {{.x = 2, .z = 2, .data = 1}};
  if (!is_long_run())
    return {{.x = 2, .y = 2, .data = 1}, {.x = 2, .z = 2, .data = 1}, {.y = 2, .z = 2, .data = 2}};
  std::vector<plan::Grid> all;
  for (const std::int64_t x : {1, 2, 4})
    for (const std::int64_t y : {1, 2, 4})
      for (const std::int64_t z : {1, 2, 4})
        for (const std::int64_t data : {1, 2, 4})
          if (x * y * z * data > 1 && x * y * z * data <= 8)
            all.push_back({.x = x, .y = y, .z = z, .data = data});
  return all;
}

plan::Overlap overlap_of(unsigned bits) {
  return {(bits & 1U) == 0, (bits & 2U) == 0, (bits & 4U) == 0};
}

std::string training_step(const program::Job& job) {
  return program::to_text(job.classes[0].at("train"));
}

void expect_no_bit_depends_on_overlap(RunSetup setup, bool is_slow = false) {
  std::size_t compared = 0;
  for (const plan::Grid& grid : grids(is_slow)) {
    test::set_grid(setup, grid);
    setup.plan.overlap = {};
    const std::string beside = training_step(test::GridRun::compile_job(setup));
    const test::Tensors weights = test::trained(setup, 5).weights;
    ASSERT_FALSE(weights.empty());
    bool changed = false;
    for (const unsigned bits : {1U, 2U, 4U, 7U, 3U, 5U, 6U}) {
      if (!is_long_run() && bits != 7 && (bits & (bits - 1)) != 0) continue;
      setup.plan.overlap = overlap_of(bits);
      const std::string what =
          test::name_of(setup.plan) + ", not beside: " + plan::not_overlapped(setup.plan.overlap);
      const program::Job job = test::GridRun::compile_job(setup);
      const auto faults = verify::verify(job);
      EXPECT_TRUE(faults.empty()) << what << ": " << faults.front().message;
      EXPECT_EQ(test::trained(setup, 5).weights, weights) << what;
      changed = changed || training_step(job) != beside;
      ++compared;
    }
    EXPECT_TRUE(changed) << test::name_of(setup.plan);
  }
  std::printf("%zu runs have the bits of those that overlap\n", compared);
}

TEST(Overlap, changes_no_bit_of_a_gpt) {
  expect_no_bit_depends_on_overlap(test::first_model());
}

TEST(Overlap, changes_no_bit_of_a_unet) {
  expect_no_bit_depends_on_overlap(test::diffusion_model(), true);
}

}  // namespace
}  // namespace fourfold
