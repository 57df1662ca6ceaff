#include "run/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "run/cpu.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

/// Copies step.lr to result.loss_sum and step.step to result.valid_count, by way of the blocks.
Handmade echo() {
  Handmade made(op::ProgramKind::train);
  const auto step = made.step_block(), result = made.result_block();
  made.add("math", program::Copy{Handmade::field(step, "step.lr"),
                                 Handmade::field(result, "result.loss_sum")});
  made.add("math", program::Copy{Handmade::field(step, "step.step"),
                                 Handmade::field(result, "result.valid_count")});
  return made;
}

TEST(Executor, the_step_block_goes_in_and_the_result_block_comes_out_at_either_parity) {
  const program::Bundle bundle = echo().bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  for (std::int64_t step = 0; step < 4; ++step) {
    const double lr = 0.1 + static_cast<double>(step);
    const op::ResultBlock result = executor.run(op::ProgramKind::train, {.step = step, .lr = lr});
    EXPECT_EQ(result.loss_sum, lr);
    EXPECT_EQ(result.valid_count, step);
  }
}

TEST(Executor, fields_that_no_instruction_writes_are_zero) {
  const program::Bundle bundle = echo().bundle();
  CpuBackend backend({.fresh = CpuOptions::Fresh::paint});
  Executor executor(bundle, backend);
  EXPECT_EQ(executor.run(op::ProgramKind::train, {}).applied, 0);
  EXPECT_EQ(executor.run(op::ProgramKind::train, {}).grad_norm, 0);
}

TEST(Executor, the_callback_comes_behind_each_instruction_in_program_order) {
  const program::Bundle bundle = echo().bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  std::vector<std::size_t> seen;
  std::vector<double> loss_sums;
  const auto result = executor.run_stepwise(
      op::ProgramKind::train, {.step = 3, .lr = 0.5}, nullptr,
      [&](const program::Program& program, std::size_t i) {
        EXPECT_EQ(program.kind, op::ProgramKind::train);
        seen.push_back(i);
        loss_sums.push_back(as<double>(executor.bytes(op::ProgramKind::train, "result", 1))[0]);
      });
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(loss_sums, (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(result.valid_count, 3);
}

TEST(Executor, programs_and_buffers_that_are_not_there_are_named) {
  const program::Bundle bundle = echo().bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  const auto message = [](const auto& action) {
    try {
      action();
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message([&] { executor.run(op::ProgramKind::digest, {}); }).find("digest"),
            std::string::npos);
  EXPECT_NE(message([&] { executor.bytes(op::ProgramKind::train, "logits"); }).find("logits"),
            std::string::npos);
}

/// A weight, its copy in bf16, and a program that moves the copy to where the test sees it.
program::Bundle with_rounded_copy() {
  Handmade made(op::ProgramKind::train);
  made.step_block();
  made.result_block();
  const auto persistent = Handmade::Region::persistent;
  made.buffer("w", DType::f32, {4}, persistent, Handmade::Role::parameter);
  const auto copy = made.buffer("w/rounded", DType::bf16, {4}, persistent, Handmade::Role::rounded);
  const auto seen =
      made.buffer("seen", DType::bf16, {4}, Handmade::Region::transient, Handmade::Role::output);
  made.copy("math", copy, seen);
  return made.bundle();
}

/// The bits that a program finds in the copy.
std::vector<std::uint16_t> copy_seen_by(Executor& executor, bool stepwise) {
  if (stepwise)
    executor.run_stepwise(op::ProgramKind::train, {}, nullptr,
                          [](const program::Program&, std::size_t) {});
  else
    executor.run(op::ProgramKind::train, {});
  std::vector<std::uint16_t> bits;
  for (const BFloat16 value : as<BFloat16>(executor.bytes(op::ProgramKind::train, "seen")))
    bits.push_back(value.bits);
  return bits;
}

TEST(Executor, weights_that_the_host_has_written_are_rounded_again_before_the_next_program) {
  const program::Bundle bundle = with_rounded_copy();
  for (const bool stepwise : {false, true}) {
    CpuBackend backend;
    Executor executor(bundle, backend);
    // Halfway between two of bf16: to the even one, be it below or above.
    const std::vector<float> first = {1, 1 + 0x1p-8F, 1 + 3 * 0x1p-8F, -0.0F};
    std::ranges::copy(first, as<float>(executor.bytes(op::ProgramKind::train, "w")).begin());
    EXPECT_EQ(copy_seen_by(executor, stepwise),
              (std::vector<std::uint16_t>{0x3f80, 0x3f80, 0x3f82, 0x8000}));
    as<float>(executor.bytes(bundle.programs[0].buffer(program::BufferId(2))))[0] = 2;
    EXPECT_EQ(copy_seen_by(executor, stepwise)[0], 0x4000) << "by its buffer";
  }
}

/// A save reads all weights, and costs nobody their rounding.
TEST(Executor, weights_that_the_host_has_only_read_are_not_rounded_again) {
  const program::Bundle bundle = with_rounded_copy();
  const program::Program& use = bundle.programs[0];
  CpuBackend backend;
  Executor executor(bundle, backend);
  as<BFloat16>(executor.bytes(op::ProgramKind::train, "w/rounded"))[0] = BFloat16(7);
  EXPECT_EQ(executor.read(use.buffer(*use.find_buffer("w"))).size(), 16U);
  EXPECT_EQ(copy_seen_by(executor, false)[0], BFloat16(7).bits);
}

TEST(Executor, a_block_too_small_for_its_fields_is_refused) {
  Handmade made(op::ProgramKind::train);
  made.buffer("step", DType::u64, {2}, Handmade::Region::persistent, Handmade::Role::step_block,
              true);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  EXPECT_THROW(Executor(bundle, backend), InternalError);
}

}  // namespace
}  // namespace fourfold::run
