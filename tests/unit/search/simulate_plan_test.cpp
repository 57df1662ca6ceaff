// Pipelines of many micro-batches simulated with few, against the whole.
#include "search/simulate_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "search/explain.h"
#include "support/long_run.h"
#include "unit/search/random_case.h"

namespace fourfold::search {
namespace {

using pipeline::Schedule;

/// A random model in random stages on a random machine.
struct Case {
  Planned planned;
  plan::PlanSpec spec;
  std::string text;

  explicit Case(std::uint32_t seed) : Case(std::mt19937(seed)) {}
  explicit Case(std::mt19937 random) : Case(random, one_of<std::int64_t>({2, 3, 4, 6}, random)) {}
  Case(std::mt19937& random, std::int64_t meshes)
      : Case(random, meshes, meshes * one_of<std::int64_t>({1, 2, 4}, random)) {}
  Case(std::mt19937& random, std::int64_t meshes, std::int64_t ranks)
      : planned(random_machine(ranks, random), ranks,
                2 * meshes + one_of<std::int64_t>({0, 1, 3}, random)) {
    choose_model(planned, random);
    spec = planned.setup.plan;
    const std::int64_t of_mesh = ranks / meshes;
    spec.grid.x = one_of<std::int64_t>({1, of_mesh}, random);
    spec.grid.z = of_mesh / spec.grid.x;
    spec.grid.data = 1;
    spec.pipeline.schedule =
        one_of({Schedule::one_f_one_b, Schedule::eager_one_f_one_b, Schedule::interleaved}, random);
    if (spec.pipeline.schedule == Schedule::interleaved)
      spec.pipeline.stages_per_mesh = 2;
    else
      spec.overlap.send_recv = random() % 4 != 0;
    spec.pipeline.stages = meshes * spec.pipeline.stages_per_mesh;
    if (spec.overlap.send_recv && random() % 4 == 0)
      spec.pipeline.weight_delay = {pipeline::WeightDelay::Kind::fixed,
                                    one_of<std::int64_t>({0, 1, 2}, random)};
    const std::int64_t micros = one_of<std::int64_t>({60, 72, 96}, random);
    spec.global_batch_size = spec.micro_batch_size * spec.grid.z * micros;
    text = format("{} on {} ranks, {} of {} micro-batches{}", shape_text(spec), ranks,
                  pipeline::to_string(spec.pipeline.schedule), micros,
                  spec.pipeline.stages_per_mesh > 1 ? ", 2 stages a mesh" : "");
  }
};

double sum_of(const std::vector<simulate::Cost>& costs) {
  double sum = 0;
  for (const simulate::Cost& cost : costs) sum += cost.seconds;
  return sum;
}

TEST(SimulatePlan, many_micro_batches_take_and_need_what_few_of_them_say) {
  const std::uint32_t cases = is_long_run() ? 200 : 6;
  std::size_t extended = 0;
  double worst = 0, worst_bytes = 0;
  for (std::uint32_t seed = 1; seed <= cases; ++seed) {
    Case one(seed);
    const double memory = one.planned.cluster.device.memory_bytes;
    const Simulated few = simulate_plan(one.planned.question, one.spec, memory),
                    whole = simulate_whole(one.planned.question, one.spec, memory);
    SCOPED_TRACE(format("seed {}: {}, of which {} were simulated", seed, one.text, few.micros));
    if (few.micros < whole.micros) ++extended;
    const double off = std::abs(few.step_s / whole.step_s - 1),
                 off_bytes = std::abs(
                     static_cast<double>(few.bytes) / static_cast<double>(whole.bytes) - 1);
    worst = std::max(worst, off);
    worst_bytes = std::max(worst_bytes, off_bytes);
    EXPECT_LE(off, 0.01);
    EXPECT_LE(off_bytes, 0.01);
    EXPECT_NEAR(sum_of(few.costs), few.step_s, 0.01 * few.step_s);
    EXPECT_NEAR(few.exposed_s, whole.exposed_s, 0.01 * whole.step_s);
    EXPECT_EQ(few.fits, whole.fits);
  }
  std::printf("%zu of %u pipelines from few micro-batches: time within %.5f, memory within %.5f\n",
              extended, cases, worst, worst_bytes);
  EXPECT_GE(extended, cases * 3 / 4);
}

}  // namespace
}  // namespace fourfold::search
