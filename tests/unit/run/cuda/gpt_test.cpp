// A small GPT on a GPU that is not there: in which order streams run, and what the host asks for.
// Its numbers: tests/system/gpu.
#include <gtest/gtest.h>

#include <vector>

#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::run::cuda {
namespace {

using test::random_batch;
using test::RunSetup;
using test::SmallRun;

RunSetup setup() {
  RunSetup setup;
  setup.reference_kernels = true;  // of the CPU
  setup.optimizer.grad_clip = 0.5;
  return setup;
}

/// Losses and state of some steps and an evaluation.
struct Course {
  std::vector<double> losses;
  std::vector<std::byte> state;
};
Course train(SmallRun& run, std::int64_t first, std::int64_t last) {
  Course course;
  for (std::int64_t step = first; step < last; ++step) {
    auto feeder = random_batch(setup(), static_cast<std::uint64_t>(step));
    course.losses.push_back(run.step(feeder, step).loss_sum);
  }
  auto feeder = random_batch(setup(), 99);
  course.losses.push_back(run.evaluate(feeder).loss_sum);
  course.state = run.state();
  return course;
}

TEST(GptOnAFakeGpu, the_order_in_which_streams_run_changes_no_bit) {
  Course first;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    FakeGpu gpu(seed);
    SmallRun run = gpu.run(setup());
    run.init(false);
    const Course course = train(run, 0, 5);
    if (seed == 1) first = course;
    EXPECT_EQ(course.losses, first.losses) << seed;
    EXPECT_EQ(course.state, first.state) << seed;
  }
}

TEST(GptOnAFakeGpu, a_step_is_one_launch_and_one_wait_once_both_parities_are_captured) {
  FakeGpu gpu;
  SmallRun run = gpu.run(setup());
  run.init(false);
  auto feeder = random_batch(setup());
  for (std::int64_t step = 0; step < 3; ++step) run.step(feeder, step);
  EXPECT_EQ(gpu.captures, 2);
  const std::int64_t calls = gpu.calls, launches = gpu.launches;
  for (std::int64_t step = 3; step < 7; ++step) run.step(feeder, step);
  EXPECT_EQ(gpu.captures, 2);
  EXPECT_EQ(gpu.launches - launches, 4);
  EXPECT_EQ(gpu.calls - calls, 8) << "a launch and a wait for each step";
}

}  // namespace
}  // namespace fourfold::run::cuda
