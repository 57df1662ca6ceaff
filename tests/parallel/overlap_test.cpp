// Collectives or gradients of weights beside computation or not, gathers ahead or kept, sums in
// buckets, layers computed again: not one bit of a run depends on it where ranks are threads.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

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

std::string training_step(const program::Job& job) {
  return program::to_text(job.classes[0].at(op::ProgramKind::train));
}

/// A way to carry out the same step.
struct Variant {
  std::string name;
  std::function<void(plan::PlanSpec&)> change;
};

void wait_for_all(plan::PlanSpec& spec) {
  spec.overlap = {false, false, false, false};
}

void beside(plan::PlanSpec& spec) {
  spec.overlap.weight_gradients = plan::WeightGradients::beside;
}

/// Alone, and together.
std::vector<Variant> variants() {
  using plan::PlanSpec;
  return {
      {"nothing beside computation", wait_for_all},
      {"no sums beside computation", [](PlanSpec& spec) { spec.overlap.all_reduce = false; }},
      {"no scattered sums beside computation",
       [](PlanSpec& spec) { spec.overlap.reduce_scatter = false; }},
      {"no gathers beside computation", [](PlanSpec& spec) { spec.overlap.all_gather = false; }},
      {"gradients of weights beside computation", beside},
      {"gradients of weights beside computation, no collectives",
       [](PlanSpec& spec) {
         wait_for_all(spec);
         beside(spec);
       }},
      {"gradients of weights beside computation, recomputation, no room",
       [](PlanSpec& spec) {
         spec.checkpointing = {.layers = 1};
         spec.memory_limit = 1;
         beside(spec);
       }},
      {"no buckets", [](PlanSpec& spec) { spec.bucket_bytes = 0; }},
      {"small buckets", [](PlanSpec& spec) { spec.bucket_bytes = 16 << 10; }},
      {"no cached gathers", [](PlanSpec& spec) { spec.cached_gathers = 0; }},
      {"gathers of one layer cached", [](PlanSpec& spec) { spec.cached_gathers = 1; }},
      {"recomputation", [](PlanSpec& spec) { spec.checkpointing = {.layers = 1}; }},
      {"recomputation of some, as auto chooses it",
       [](PlanSpec& spec) {
         spec.checkpointing = {.is_auto = true, .first_full = 1, .first_selective = 2};
       }},
      {"no room", [](PlanSpec& spec) { spec.memory_limit = 1; }},
      {"recomputation, cached gathers, small buckets",
       [](PlanSpec& spec) {
         spec.checkpointing = {.layers = 1};
         spec.cached_gathers = 2;
         spec.bucket_bytes = 16 << 10;
       }},
      {"recomputation, one cached gather, no room, no gathers beside computation",
       [](PlanSpec& spec) {
         spec.checkpointing = {.layers = 1};
         spec.cached_gathers = 1;
         spec.memory_limit = 1;
         spec.overlap.all_gather = false;
       }},
      {"no buckets, no sums beside computation",
       [](PlanSpec& spec) {
         spec.bucket_bytes = 0;
         spec.overlap.all_reduce = spec.overlap.reduce_scatter = false;
       }},
  };
}

/// Each variant changes the program of some grid.
void expect_no_bit_changes(const RunSetup& model, bool is_slow = false) {
  const std::vector<Variant> all = variants();
  std::vector<bool> has_changed(all.size(), false);
  std::size_t compared = 0;
  for (const plan::Grid& grid : grids(is_slow)) {
    RunSetup setup = model;
    test::set_grid(setup, grid);
    const std::string plain = training_step(test::GridRun::compile_job(setup));
    const test::Tensors weights = test::trained(setup, 5).weights;
    ASSERT_FALSE(weights.empty());
    for (std::size_t v = 0; v < all.size(); ++v) {
      RunSetup changed = setup;
      all[v].change(changed.plan);
      const std::string what = test::name_of(changed.plan) + ": " + all[v].name;
      const program::Job job = test::GridRun::compile_job(changed);
      const auto faults = verify::verify(job);
      EXPECT_TRUE(faults.empty()) << what << ": " << faults.front().message;
      EXPECT_EQ(test::trained(changed, 5).weights, weights) << what;
      has_changed[v] = has_changed[v] || training_step(job) != plain;
      ++compared;
    }
  }
  for (std::size_t v = 0; v < all.size() && (is_long_run() || !is_slow); ++v)
    EXPECT_TRUE(has_changed[v]) << all[v].name;
  std::printf("%zu runs have the bits of those that overlap\n", compared);
}

TEST(Overlap, changes_no_bit_of_a_gpt) {
  expect_no_bit_changes(test::first_model());
}

TEST(Overlap, changes_no_bit_of_a_unet) {
  expect_no_bit_changes(test::diffusion_model(), true);
}

}  // namespace
}  // namespace fourfold
