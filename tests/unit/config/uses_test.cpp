#include "config/uses.h"

#include <gtest/gtest.h>

#include "unit/data/expect_error.h"

namespace fourfold::config {
namespace {

Config trained() {
  Config config;
  config.threads = 8;
  config.device = "cuda";
  config.kernel_table = "kernels.yaml";
  config.plan.grid = {.x = 2, .y = 2, .z = 1, .data = 2};
  config.plan.shard_states = true;
  config.gpt.max_position_embeddings = 64;
  config.data.seq_length = 32;
  config.data.mask_documents = true;
  config.sample.tokens = 100;
  return config;
}

TEST(Uses, one_rank_writes_however_many_have_trained) {
  const Config config = for_writing(trained(), {3, "cpu"});
  EXPECT_TRUE(config.plan.grid == plan::Grid{});
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.kernel_table, KernelTable::builtin);
  EXPECT_EQ(config.sample.tokens, 100);
}

TEST(Uses, a_text_is_judged_in_windows_and_no_more_of_them_than_it_has) {
  const Config as_trained = for_scoring(trained(), {}, std::nullopt, 100000);
  EXPECT_EQ(as_trained.data.seq_length, 32);
  EXPECT_EQ(as_trained.plan.global_batch_size, 2048 / 32);
  EXPECT_FALSE(as_trained.plan.shard_states);
  EXPECT_FALSE(as_trained.data.mask_documents);
  EXPECT_EQ(as_trained.sample.tokens, 0);
  const Config shorter = for_scoring(trained(), {}, 16, 40);
  EXPECT_EQ(shorter.data.seq_length, 16);
  EXPECT_EQ(shorter.plan.global_batch_size, 3);
  EXPECT_EQ(shorter.micro_batch_size, 3);
  const auto message =
      user_error(ExitCode::bad_config, [] { for_scoring(trained(), {}, 65, 1000); });
  expect_words(message, {"--window 65", "knows 64 positions"});
}

TEST(Uses, steps_are_measured_without_what_comes_after_them_and_the_run_stays_as_it_is) {
  const Config run = trained(), measured = for_steps(run, 21, 2);
  EXPECT_EQ(measured.train.steps, 21);
  EXPECT_EQ(measured.train.eval_interval, 0);
  EXPECT_EQ(measured.sample.tokens, 0);
  EXPECT_EQ(measured.threads, 2);
  EXPECT_EQ(for_steps(run, 21, 0).threads, 8);
  EXPECT_EQ(run, trained());
}

TEST(Uses, what_is_about_to_be_measured_takes_the_built_in_table) {
  const Config measured = for_measuring(trained(), "cpu", 0);
  EXPECT_EQ(measured.kernel_table, KernelTable::builtin);
  EXPECT_EQ(measured.device, "cpu");
  EXPECT_EQ(measured.threads, 8);
  const Config one = for_one_rank(measured, 3, 2);
  EXPECT_EQ(one.plan.global_batch_size, 6);
  EXPECT_EQ(one.plan_spec().micro_batch_size, 3);
  EXPECT_TRUE(one.plan.grid == plan::Grid{});
}

TEST(Uses, kernels_of_a_cpu_compute_in_fp32_what_was_trained_in_bf16) {
  Config run = trained();
  run.plan.compute = DType::bf16;
  EXPECT_EQ(for_kernels_of_cpu(run).plan.compute, DType::f32);
  run.kernels = "reference";
  EXPECT_EQ(for_kernels_of_cpu(run).plan.compute, DType::bf16);
}

}  // namespace
}  // namespace fourfold::config
