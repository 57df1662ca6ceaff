// Passes that may be left out: not one bit of a run depends on them.
#include "compile/passes.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "support/trained_weights.h"

namespace fourfold {
namespace {

using test::RunSetup;
using test::trained;

constexpr std::int64_t trained_steps = 3;

TEST(Passes, that_may_be_left_out_change_no_bit_alone_and_together) {
  RunSetup setup = test::first_model();
  setup.reference_kernels = false;  // those of a CPU have fused rows
  setup.plan.shard_states = true;
  test::set_grid(setup, {.x = 2, .y = 1, .z = 2, .data = 2});
  const auto [usual, usual_size] = trained(setup, trained_steps);
  ASSERT_FALSE(usual.empty());
  std::vector<std::string> all;
  for (const compile::Pass& pass : compile::passes())
    if (pass.is_optional) all.emplace_back(pass.name);
  std::vector<std::vector<std::string>> choices = {all};
  for (const std::string& name : all) choices.push_back({name});
  for (const auto& without : choices) {
    const auto [weights, size] = trained(setup, trained_steps, without);
    EXPECT_EQ(weights, usual) << without[0];
    std::printf("%-16s left out: %zu instructions instead of %zu\n",
                without.size() > 1 ? "all" : without[0].c_str(), size, usual_size);
    EXPECT_GE(size, usual_size) << without[0];
  }
}

}  // namespace
}  // namespace fourfold
