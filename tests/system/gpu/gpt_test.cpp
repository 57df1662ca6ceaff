// A small GPT on a GPU against the CPU, in float32 and in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "run/find_non_finite.h"
#include "support/compare.h"
#include "support/gpu.h"
#include "trace/recorder.h"

namespace fourfold::test {
namespace {

RunSetup small_gpt(DType compute = DType::f32) {
  RunSetup setup;
  setup.reference_kernels = true;  // of the CPU
  setup.optimizer.grad_clip = 0.5;
  setup.plan.compute = compute;
  return setup;
}

/// In bf16, with a residual stream in bf16 and in float32.
std::vector<RunSetup> small_gpts_in_bf16() {
  std::vector<RunSetup> setups(2, small_gpt(DType::bf16));
  setups[1].gpt.wide_residual = true;
  return setups;
}

/// k eps sqrt(n) with k = 8, eps = 2^-24, and n = 400 additions at most on the way to an element:
/// the same bounds as for ten steps against PyTorch (tests/golden).
constexpr double bound = 1e-5, weight_bound = 2 * bound;

/// The same for values that are rounded to bf16, eps = 2^-9, as often as an element of the last
/// activation is on its way through two blocks: 12 stored tensors each, and 4 around them.
const double bf16_bound = 8 * 0x1p-9 * std::sqrt(28);

void expect_close(double got, double expected, double most) {
  EXPECT_LE(std::abs(got - expected), most * std::abs(expected)) << got << " for " << expected;
}

void expect_same_parameters(SmallRun& got, SmallRun& expected, double gradient_norm) {
  for (const program::Buffer* buffer : expected.parameters()) {
    const auto ours = got.doubles(got.buffer(buffer->name)), theirs = expected.doubles(*buffer);
    const KeyBias keys = key_bias(buffer->name, theirs.size());
    EXPECT_LE(relative_error(without(ours, keys), without(theirs, keys), 1e-6 * gradient_norm),
              weight_bound)
        << buffer->name;
  }
}

/// Losses and state of some steps and an evaluation.
struct Course {
  std::vector<double> losses;
  std::vector<std::byte> state;
  bool operator==(const Course&) const = default;
};

template <class Step>
Course train(SmallRun& run, const RunSetup& setup, const Step& step) {
  Course course;
  run.init(false);
  for (std::int64_t number = 0; number < 6; ++number) {
    auto feeder = random_batch(setup, static_cast<std::uint64_t>(number));
    course.losses.push_back(step(feeder, number).loss_sum);
  }
  auto feeder = random_batch(setup, 99);
  course.losses.push_back(run.evaluate(feeder).loss_sum);
  course.state = run.state();
  return course;
}

/// The instructions of a program that are computed by that implementation.
std::int64_t count_by(const program::Program& program, const std::string& implementation) {
  return std::ranges::count_if(program.instructions, [&](const program::Instruction& one) {
    const auto* compute = std::get_if<program::Compute>(&one.what);
    return compute != nullptr && compute->implementation == implementation;
  });
}

class GptOnGpu : public OnGpu {
 protected:
  /// Launched as graphs where programs allow it.
  Course course(const RunSetup& setup) {
    SmallRun made = run(setup);
    return train(made, setup,
                 [&](run::Feeder& feeder, std::int64_t step) { return made.step(feeder, step); });
  }
};

TEST_P(GptOnGpu, initial_weights_are_the_bits_of_the_cpu) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    SmallRun cpu(small_gpt(compute)), gpu = run(small_gpt(compute));
    cpu.init(false);
    gpu.init(false);
    EXPECT_EQ(gpu.state(), cpu.state()) << to_string(compute);
  }
}

TEST_P(GptOnGpu, gradients_of_weights_have_the_same_bits_beside_the_backward_pass_and_in_turn) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    RunSetup setup = small_gpt(compute);
    setup.plan.overlap.weight_gradients = plan::WeightGradients::in_turn;
    const Course in_turn = course(setup);
    setup.plan.overlap.weight_gradients = plan::WeightGradients::beside;
    EXPECT_EQ(course(setup), in_turn) << to_string(compute);
  }
}

TEST_P(GptOnGpu, ten_steps_are_those_of_the_cpu) {
  SmallRun cpu(small_gpt()), gpu = run(small_gpt());
  cpu.init(true);
  gpu.init(true);
  double norm = 0;
  for (std::int64_t step = 0; step < 10; ++step) {
    auto for_cpu = random_batch(small_gpt(), static_cast<std::uint64_t>(step)), for_gpu = for_cpu;
    const op::ResultBlock expected = cpu.step(for_cpu, step), got = gpu.step(for_gpu, step);
    EXPECT_EQ(got.valid_count, expected.valid_count);
    EXPECT_EQ(got.applied, 1);
    expect_close(got.loss_sum, expected.loss_sum, bound);
    expect_close(got.grad_norm, expected.grad_norm, bound);
    if (step == 0) norm = expected.grad_norm;
  }
  expect_same_parameters(gpu, cpu, norm);
  auto for_cpu = random_batch(small_gpt(), 99), for_gpu = for_cpu;
  expect_close(gpu.evaluate(for_gpu).loss_sum, cpu.evaluate(for_cpu).loss_sum, bound);
}

TEST_P(GptOnGpu, ten_steps_in_bf16_are_those_of_the_cpu) {
  for (const RunSetup& setup : small_gpts_in_bf16()) {
    SmallRun cpu(setup), gpu = run(setup);
    cpu.init(true);
    gpu.init(true);
    for (std::int64_t step = 0; step < 10; ++step) {
      auto for_cpu = random_batch(setup, static_cast<std::uint64_t>(step)), for_gpu = for_cpu;
      // Weights that barely move: each step compares the same function, not where a course has led.
      const op::ResultBlock expected = cpu.step(for_cpu, step, 1e-6),
                            got = gpu.step(for_gpu, step, 1e-6);
      EXPECT_EQ(got.valid_count, expected.valid_count);
      EXPECT_EQ(got.applied, 1);
      expect_close(got.loss_sum, expected.loss_sum, bf16_bound);
      expect_close(got.grad_norm, expected.grad_norm, bf16_bound);
    }
  }
}

/// Where a residual connection is one kernel each way, and nothing else rounds what is kept wide.
TEST_P(GptOnGpu, a_wide_residual_stream_is_added_normed_and_rounded_in_one_kernel_each_way) {
  const RunSetup setup = small_gpts_in_bf16()[1];
  SmallRun gpu = run(setup);
  std::map<std::string, std::int64_t> rows;
  for (const program::Instruction& instruction : gpu.train_program().instructions)
    if (const auto* compute = std::get_if<program::Compute>(&instruction.what))
      ++rows[std::string(op::name(compute->op))];
  const std::int64_t layers = setup.gpt.num_layers,
                     micros = setup.plan.global_batch_size / setup.plan.micro_batch_size;
  EXPECT_EQ(rows["add_rounded&layer_norm"], 2 * layers * micros);
  EXPECT_EQ(rows["layer_norm_weight_gradient|layer_norm_gradient+add&cast&bias_gradient"],
            (2 * layers - 1) * micros);
  EXPECT_EQ(rows["layer_norm_weight_gradient|layer_norm_gradient&cast&bias_gradient"], micros)
      << "of the last norm";
  EXPECT_EQ(rows["layer_norm_weight_gradient|layer_norm_gradient+add"], micros)
      << "of the first norm";
  EXPECT_EQ(rows["cast"] + rows["add"] + rows["add_rounded"], 0);
}

TEST_P(GptOnGpu, a_wide_residual_stream_gives_the_same_bits_twice_and_recomputed) {
  RunSetup setup = small_gpts_in_bf16()[1];
  setup.gpt.dropout = 0.1;
  const Course first = course(setup);
  EXPECT_TRUE(course(setup) == first);
  setup.plan.checkpointing.layers = 1;
  EXPECT_TRUE(course(setup) == first) << "recomputed";
}

TEST_P(GptOnGpu, training_twice_gives_the_same_bits) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    RunSetup setup = small_gpt(compute);
    setup.gpt.dropout = 0.1;
    const Course first = course(setup);
    EXPECT_TRUE(course(setup) == first) << to_string(compute);
  }
}

TEST_P(GptOnGpu, training_twice_with_attention_of_cudnn_gives_the_same_bits) {
  const RunSetup setup = for_cudnn(small_gpt(DType::bf16));
  {
    // Both ways, where the build has cuDNN.
    const bool has_cudnn = GetParam().name == "libraries" && takes_cudnn();
    SmallRun made = run(setup);
    EXPECT_EQ(count_by(made.train_program(), "cudnn") > 0, has_cudnn);
    EXPECT_EQ(count_by(made.train_program(), "cudnn") % 2, 0) << "forward and gradient";
  }
  const Course first = course(setup);
  EXPECT_TRUE(course(setup) == first);
}

TEST_P(GptOnGpu, captured_steps_have_the_bits_of_traced_ones_and_of_single_instructions) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    const RunSetup setup = small_gpt(compute);
    const Course captured = course(setup);
    {
      SmallRun stepwise = run(setup);
      std::size_t instructions = 0;
      EXPECT_TRUE(train(stepwise, setup,
                        [&](run::Feeder& feeder, std::int64_t step) {
                          return stepwise.executor().run_stepwise(
                              op::ProgramKind::train, SmallRun::block(step, 1e-2, 1), &feeder,
                              [&](const program::Program&, std::size_t) { ++instructions; });
                        }) == captured)
          << "single instructions, " << to_string(compute);
      EXPECT_EQ(instructions, 6 * stepwise.train_program().instructions.size());
    }
    SmallRun traced = run(setup);
    trace::Recorder recorder(op::ProgramKind::train, traced.train_program().instructions.size(), 0,
                             6);
    traced.executor().set_recorder(&recorder);
    EXPECT_TRUE(train(traced, setup,
                      [&](run::Feeder& feeder, std::int64_t step) {
                        return traced.step(feeder, step);
                      }) == captured)
        << "traced, " << to_string(compute);
    EXPECT_EQ(recorder.runs().size(), 6U);
    traced.executor().set_recorder(nullptr);
  }
}

TEST_P(GptOnGpu, recomputed_blocks_change_no_bit_of_the_course) {
  RunSetup setup = small_gpt(DType::bf16);
  const Course kept = course(setup);
  setup.plan.checkpointing.layers = 1;
  EXPECT_TRUE(course(setup) == kept);
}

TEST_P(GptOnGpu, the_first_nan_is_named_and_no_weight_changes) {
  SmallRun gpu = run(small_gpt());
  gpu.init(false);
  auto feeder = random_batch(small_gpt());
  const program::Buffer& weight = gpu.buffer("blocks.1.mlp.up.weight");
  auto values = gpu.doubles(weight);
  const std::vector<std::byte> sound = gpu.state();
  EXPECT_FALSE(
      find_non_finite(gpu.executor(), op::ProgramKind::train, SmallRun::block(0, 1e-2, 1), &feeder)
          .has_value());
  EXPECT_EQ(gpu.state(), sound) << "the search does not apply the update";
  values[7] = std::numeric_limits<double>::quiet_NaN();
  gpu.set_doubles(weight, values);
  EXPECT_EQ(gpu.step(feeder).applied, 0);
  const auto found =
      find_non_finite(gpu.executor(), op::ProgramKind::train, SmallRun::block(0, 1e-2, 1), &feeder);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text(), "element 7 of blocks.1.mlp.up.weight was NaN before the step");
}

/// After the last of the tokens, which stand after `position` others.
std::vector<double> logits(SmallRun& run, op::ProgramKind program, std::vector<std::int32_t> tokens,
                           std::int32_t position) {
  const program::Program& chosen = run.bundle().at(program);
  op::StepBlock step;
  step.position = position;
  step.index = static_cast<std::int32_t>(tokens.size()) - 1;
  tokens.resize(static_cast<std::size_t>(chosen.inputs[0].sample_shape[0]));
  FixedFeeder feeder(tokens, {});
  run.executor().run(program, step, &feeder);
  return run.doubles(chosen.buffer(chosen.find_buffer("logits").value()));
}

TEST_P(GptOnGpu, logits_of_a_text_are_those_of_the_cpu) {
  SmallRun cpu(small_gpt()), gpu = run(small_gpt());
  cpu.init(true);
  gpu.init(true);
  const auto expect_same = [&](op::ProgramKind program, const std::vector<std::int32_t>& tokens,
                               std::int32_t position) {
    EXPECT_LE(relative_error(logits(gpu, program, tokens, position),
                             logits(cpu, program, tokens, position), 0),
              bound)
        << op::to_string(program) << " " << position;
  };
  for (int again = 0; again < 3; ++again) {
    expect_same(op::ProgramKind::prefill, {3, 1}, 0);
    expect_same(op::ProgramKind::decode, {4}, 2);
    expect_same(op::ProgramKind::decode, {10}, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(By, GptOnGpu, testing::ValuesIn(gpu_kernels()), kernels_name);

}  // namespace
}  // namespace fourfold::test
