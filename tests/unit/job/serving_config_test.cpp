#include "job/serving_config.h"

#include <gtest/gtest.h>

#include "unit/data/expect_error.h"

namespace fourfold::job {
namespace {

config::Config trained() {
  config::Config config;
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

TEST(ServingConfig, one_rank_writes_however_many_have_trained) {
  const config::Config config = writing_config(trained(), {3, "cpu"});
  EXPECT_TRUE(config.plan.grid == plan::Grid{});
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.kernel_table, config::KernelTable::builtin);
  EXPECT_EQ(config.sample.tokens, 100);
}

TEST(ServingConfig, a_text_is_judged_in_windows_and_no_more_of_them_than_it_has) {
  const config::Config as_trained = scoring_config(trained(), {}, std::nullopt, 100000);
  EXPECT_EQ(as_trained.data.seq_length, 32);
  EXPECT_EQ(as_trained.plan.global_batch_size, 2048 / 32);
  EXPECT_FALSE(as_trained.plan.shard_states);
  EXPECT_FALSE(as_trained.data.mask_documents);
  EXPECT_EQ(as_trained.sample.tokens, 0);
  const config::Config shorter = scoring_config(trained(), {}, 16, 40);
  EXPECT_EQ(shorter.data.seq_length, 16);
  EXPECT_EQ(shorter.plan.global_batch_size, 3);
  EXPECT_EQ(shorter.micro_batch_size, 3);
  const auto message =
      user_error(ExitCode::bad_config, [] { scoring_config(trained(), {}, 65, 1000); });
  expect_words(message, {"--window 65", "knows 64 positions"});
}

}  // namespace
}  // namespace fourfold::job
