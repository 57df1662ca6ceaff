#include "run/executor.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "run/cpu.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

/// Copies step.lr to result.loss_sum and step.step to result.valid_count, by way of the blocks.
Handmade echo() {
  Handmade made("echo");
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
    const op::ResultBlock result = executor.run("echo", {.step = step, .lr = lr});
    EXPECT_EQ(result.loss_sum, lr);
    EXPECT_EQ(result.valid_count, step);
  }
}

TEST(Executor, fields_that_no_instruction_writes_are_zero) {
  const program::Bundle bundle = echo().bundle();
  CpuBackend backend({.fresh = CpuOptions::Fresh::paint});
  Executor executor(bundle, backend);
  EXPECT_EQ(executor.run("echo", {}).applied, 0);
  EXPECT_EQ(executor.run("echo", {}).grad_norm, 0);
}

TEST(Executor, the_callback_comes_behind_each_instruction_in_program_order) {
  const program::Bundle bundle = echo().bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  std::vector<std::size_t> seen;
  std::vector<double> loss_sums;
  const auto result = executor.run_stepwise(
      "echo", {.step = 3, .lr = 0.5}, nullptr, [&](const program::Program& program, std::size_t i) {
        EXPECT_EQ(program.name, "echo");
        seen.push_back(i);
        loss_sums.push_back(as<double>(executor.bytes("echo", "result", 1))[0]);
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
  EXPECT_NE(message([&] { executor.run("digest", {}); }).find("digest"), std::string::npos);
  EXPECT_NE(message([&] { executor.bytes("echo", "logits"); }).find("logits"), std::string::npos);
}

TEST(Executor, a_block_too_small_for_its_fields_is_refused) {
  Handmade made("p");
  made.buffer("step", DType::u64, {2}, Handmade::Region::persistent, Handmade::Role::step_block,
              true);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  EXPECT_THROW(Executor(bundle, backend), InternalError);
}

}  // namespace
}  // namespace fourfold::run
