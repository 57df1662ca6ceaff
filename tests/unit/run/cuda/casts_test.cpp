// The rounding of initial weights to bf16 on a GPU that is not there, in one launch and in many.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::run::cuda {
namespace {

struct Trained {
  std::vector<double> losses;
  std::vector<std::byte> state;
  std::ptrdiff_t casts = 0;
};

Trained train(FakeGpu& gpu, const machine::Target& target) {
  test::RunSetup setup;
  setup.plan.compute = DType::bf16;
  test::SmallRun run(setup, target, gpu.backend());
  run.init(false);
  Trained trained;
  for (std::int64_t step = 0; step < 3; ++step) {
    auto feeder = test::random_batch(setup, static_cast<std::uint64_t>(step));
    trained.losses.push_back(run.step(feeder, step).loss_sum);
  }
  trained.state = run.state();
  trained.casts = std::ranges::count_if(
      run.bundle().at(op::ProgramKind::init).instructions, [](const auto& instruction) {
        const auto* compute = std::get_if<program::Compute>(&instruction.what);
        return compute != nullptr && op::name(compute->op).starts_with("cast");
      });
  return trained;
}

TEST(CastsOnAFakeGpu, of_all_weights_at_once_give_the_bits_of_one_by_one) {
  FakeGpu gpu;
  machine::Target target = kernels::cuda::own_target();
  const Trained together = train(gpu, target);
  std::erase(target.fusions, "cast_list");
  const Trained one_by_one = train(gpu, target);
  EXPECT_EQ(together.casts, 1);
  EXPECT_GT(one_by_one.casts, 20);
  EXPECT_EQ(together.losses, one_by_one.losses);
  EXPECT_EQ(together.state, one_by_one.state);
}

}  // namespace
}  // namespace fourfold::run::cuda
