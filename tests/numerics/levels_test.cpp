// The own loops of each level of instructions in the build that this CPU runs; all other tests have
// those of the best one.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/libraries.h"
#include "kernels/cpu/own_loops.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

TEST(Levels, the_best_one_computes) {
  const auto& levels = kernels::cpu::levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front().name, "least");
  EXPECT_EQ(&kernels::cpu::own_loops(), levels.back().loops);
  EXPECT_EQ(kernels::cpu::instruction_sets(), levels.back().loops->instruction_sets());
  for (std::size_t i = 1; i < levels.size(); ++i) {
    EXPECT_NE(levels[i].loops, levels[i - 1].loops);
    EXPECT_GT(levels[i].loops->instruction_sets().size(),
              levels[i - 1].loops->instruction_sets().size())
        << levels[i].name << " was compiled for more than " << levels[i - 1].name;
  }
}

TEST(Levels, the_lower_ones_are_as_exact) {
  const auto& levels = kernels::cpu::levels();
  if (levels.size() == 1) GTEST_SKIP() << "this build has one level; FOURFOLD_ARCH=x86-64-v2 more";
  const std::vector<Case> cases = all_cases();
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const kernels::cpu::OwnLoops& loops = *levels[i].loops;
    const Kernels source{loops.prepare_vector, loops.vector_workspace_bytes};
    for (const Case& sample : cases) {
      SCOPED_TRACE(levels[i].name + ": " + sample.name);
      std::vector<Backend> lower = backends_of(sample.op);
      std::erase_if(lower, [](const Backend& backend) {
        return backend.implementation != "vector" || backend.threads > 2;
      });
      for (Backend& backend : lower) backend.source = &source;
      expect_within_bound(sample, lower);
    }
  }
}

}  // namespace
}  // namespace fourfold::numerics
