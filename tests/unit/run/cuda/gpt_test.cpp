// A small GPT on a GPU that is not there, against the CPU backend.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "run/find_non_finite.h"
#include "support/compare.h"
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

/// k eps sqrt(n) with k = 8, eps = 2^-24, and n = 400 additions at most on the way to an element:
/// the same bounds as for ten steps against PyTorch (tests/golden).
constexpr double bound = 1e-5, weight_bound = 2 * bound;

void expect_close(double got, double expected) {
  EXPECT_LE(std::abs(got - expected), bound * std::abs(expected)) << got << " for " << expected;
}

void expect_same_parameters(SmallRun& got, SmallRun& expected, double gradient_norm) {
  for (const program::Buffer* buffer : expected.parameters()) {
    const auto ours = got.doubles(got.buffer(buffer->name)), theirs = expected.doubles(*buffer);
    const test::KeyBias keys = test::key_bias(buffer->name, theirs.size());
    EXPECT_LE(test::relative_error(test::without(ours, keys), test::without(theirs, keys),
                                   1e-6 * gradient_norm),
              weight_bound)
        << buffer->name;
  }
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

TEST(GptOnAFakeGpu, initial_weights_are_the_bits_of_the_cpu) {
  FakeGpu gpu;
  SmallRun cpu(setup()), cuda = gpu.run(setup());
  cpu.init(false);
  cuda.init(false);
  EXPECT_EQ(cuda.state(), cpu.state());
}

TEST(GptOnAFakeGpu, ten_steps_are_those_of_the_cpu) {
  FakeGpu gpu;
  SmallRun cpu(setup()), cuda = gpu.run(setup());
  cpu.init(true);
  cuda.init(true);
  double norm = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    auto for_cpu = random_batch(setup(), static_cast<std::uint64_t>(step)), for_cuda = for_cpu;
    const op::ResultBlock expected = cpu.step(for_cpu, step), got = cuda.step(for_cuda, step);
    EXPECT_EQ(got.token_count, expected.token_count);
    EXPECT_EQ(got.applied, 1);
    expect_close(got.loss_sum, expected.loss_sum);
    expect_close(got.grad_norm, expected.grad_norm);
    if (step == 0) norm = expected.grad_norm;
  }
  expect_same_parameters(cuda, cpu, norm);
  auto for_cpu = random_batch(setup(), 99), for_cuda = for_cpu;
  expect_close(cuda.evaluate(for_cuda).loss_sum, cpu.evaluate(for_cpu).loss_sum);
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

TEST(GptOnAFakeGpu, single_instructions_give_the_bits_of_a_graph) {
  FakeGpu gpu;
  SmallRun whole = gpu.run(setup()), stepwise = gpu.run(setup());
  auto feeder = random_batch(setup());
  for (SmallRun* run : {&whole, &stepwise}) {
    run->init(false);
    for (std::int64_t step = 0; step < 2; ++step) run->step(feeder, step);
  }
  const auto expected = whole.step(feeder, 2);
  std::size_t seen = 0;
  const auto got = stepwise.executor().run_stepwise(
      "train", SmallRun::block(2, 1e-2, 1), &feeder,
      [&](const program::Program&, std::size_t instruction) { EXPECT_EQ(instruction, seen++); });
  EXPECT_EQ(seen, whole.train_program().instructions.size());
  EXPECT_EQ(got.loss_sum, expected.loss_sum);
  EXPECT_EQ(got.grad_norm, expected.grad_norm);
  EXPECT_EQ(stepwise.state(), whole.state());
}

TEST(GptOnAFakeGpu, the_first_nan_is_named_and_no_weight_changes) {
  FakeGpu gpu;
  SmallRun run = gpu.run(setup());
  run.init(false);
  auto feeder = random_batch(setup());
  const program::Buffer& weight = run.buffer("blocks.1.mlp.up.weight");
  auto values = run.doubles(weight);
  const std::vector<std::byte> sound = run.state();
  EXPECT_FALSE(
      find_non_finite(run.executor(), "train", SmallRun::block(0, 1e-2, 1), &feeder).has_value());
  EXPECT_EQ(run.state(), sound) << "the search does not apply the update";
  values[7] = std::numeric_limits<double>::quiet_NaN();
  run.set_doubles(weight, values);
  EXPECT_EQ(run.step(feeder).applied, 0);
  const auto found = find_non_finite(run.executor(), "train", SmallRun::block(0, 1e-2, 1), &feeder);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text(), "element 7 of blocks.1.mlp.up.weight was NaN before the step");
}

/// Behind the last of the tokens, which stand behind `position` others.
std::vector<double> logits(SmallRun& run, const char* program, std::vector<std::int32_t> tokens,
                           std::int32_t position) {
  const program::Program& chosen = run.bundle().at(program);
  op::StepBlock step;
  step.position = position;
  step.index = static_cast<std::int32_t>(tokens.size()) - 1;
  tokens.resize(static_cast<std::size_t>(chosen.feeds.length));
  test::FixedFeeder feeder(tokens, {});
  run.executor().run(program, step, &feeder);
  return run.doubles(chosen.buffer(chosen.find_buffer("logits").value()));
}

TEST(GptOnAFakeGpu, logits_of_a_text_are_those_of_the_cpu) {
  FakeGpu gpu;
  SmallRun cpu(setup()), cuda = gpu.run(setup());
  cpu.init(true);
  cuda.init(true);
  const auto expect_same = [&](const char* program, const std::vector<std::int32_t>& tokens,
                               std::int32_t position) {
    EXPECT_LE(test::relative_error(logits(cuda, program, tokens, position),
                                   logits(cpu, program, tokens, position), 0),
              bound)
        << program << " " << position;
  };
  for (int again = 0; again < 3; ++again) {
    expect_same("prefill", {3, 1}, 0);
    expect_same("decode", {4}, 2);
    expect_same("decode", {10}, 3);
  }
}

}  // namespace
}  // namespace fourfold::run::cuda
