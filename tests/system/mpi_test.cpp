// Ranks that are processes train the same model: losses and gradient norms under mpirun, on many
// grids, are those of one rank, with dropout on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "support/launched_job.h"
#include "support/long_run.h"
#include "support/step_metrics.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

/// Rounding in float64 stays orders of magnitude below; a missing or doubled reduction does not.
constexpr double most = 1e-12;

/// Sizes that two, three, four and six divide where they must. Heads do not divide by four and the
/// vocabulary by nothing, so that their substitutes are met too; a step is three micro-batches on
/// one rank.
constexpr const char* config_text = R"(
model: {num_layers: 2, num_attention_heads: 6, hidden_size: 24, vocab_size: 37, dropout: 0.1}
data: {format: synthetic, seq_length: 12, split: 0.99}
train: {steps: 5, global_batch_size: 24}
optimizer: {lr: 1e-2}
lr_schedule: {kind: constant, warmup_steps: 0}
eval: {interval_steps: 0, batches: 2}
precision: {compute: fp64}
)";

/// Three convolutions and two linear layers of widths that four and three divide.
constexpr const char* picture_text = R"(
model: {kind: vgg}
vgg: {widths: [12, pool, 24, 12, pool], hidden: [24], picture: [8, 8, 3], num_classes: 7, dropout: 0.1}
data: {format: synthetic, flip: true, split: 0.99}
train: {steps: 5, global_batch_size: 24}
optimizer: {lr: 1e-3}
lr_schedule: {kind: constant, warmup_steps: 0}
eval: {interval_steps: 0, batches: 2}
precision: {compute: fp64}
)";

/// Two levels of channels that two, four and eight divide.
constexpr const char* diffusion_text = R"(
model: {kind: unet}
unet: {channels: 16, channel_mult: [1, 2], num_res_blocks: 1, attention_resolutions: [4], num_attention_heads: 8,
  norm_groups: 8, picture: [8, 8, 3], num_classes: 5, class_conditional: true, learn_sigma: true, dropout: 0.1}
diffusion: {steps: 20}
data: {format: synthetic, flip: true, split: 0.99}
train: {steps: 3, global_batch_size: 16}
optimizer: {lr: 1e-3}
lr_schedule: {kind: constant, warmup_steps: 0}
eval: {interval_steps: 0, batches: 2}
precision: {compute: fp64}
)";

struct GridCase {
  int x, y, z, data;
  std::vector<std::string> settings;
  int num_ranks() const { return x * y * z * data; }
};

const std::string megatron = "parallel.strategy=megatron", fsdp = "parallel.strategy=fsdp",
                  sequence = "parallel.shard_sequence=true", states = "optimizer.shard=states",
                  recompute = "memory.activation_checkpointing=full";

/// Run with the quick tests: most of what there is at once.
const std::vector<GridCase> sample{
    {2, 1, 2, 2, {"parallel.order=[data, z, y, x]", states, "train.micro_batch_size=3"}},
};

/// Three processes in two stages, of which the first has a mesh of two.
const std::vector<std::string> unequal_stages{
    "parallel.pipeline={stages: 2, schedule: eager-1f1b, meshes: [{x: 2}, {data: 1}]}",
    "train.micro_batch_size=4"};

const std::vector<GridCase> all{
    {2, 1, 1, 1, {}},
    {1, 2, 1, 1, {}},
    {1, 1, 2, 1, {"train.micro_batch_size=3"}},
    {1, 1, 1, 2, {"train.micro_batch_size=4"}},
    {2, 2, 1, 1, {}},
    {2, 1, 1, 2, {"train.micro_batch_size=6"}},
    {1, 2, 2, 1, {}},
    {1, 1, 2, 2, {}},
    {1, 1, 1, 4, {states}},
    {1, 1, 4, 1, {fsdp}},
    {4, 1, 1, 1, {}},
    {1, 4, 1, 1, {}},
    {2, 2, 2, 1, {"train.micro_batch_size=4"}},
    {2, 2, 1, 2, {"parallel.order=[y, x, z, data]"}},
    {2, 1, 2, 2, {"parallel.order=[data, z, y, x]", states}},
    {1, 2, 2, 2, {}},
    {2, 2, 2, 1, {recompute, "train.micro_batch_size=4"}},
    {2, 2, 2, 2, {}},
    {2, 2, 2, 2, {states, recompute, "train.micro_batch_size=3"}},
    {1, 1, 3, 1, {"train.micro_batch_size=4"}},
    {1, 3, 1, 1, {}},
    {3, 1, 2, 1, {}},
    {1, 3, 1, 2, {}},
    {1, 2, 3, 1, {}},
    {1, 1, 2, 3, {states}},
    {2, 1, 1, 2, {megatron}},
    {2, 1, 1, 2, {megatron, sequence, states, "train.micro_batch_size=6"}},
    {6, 1, 1, 1, {megatron, sequence}},
};

/// The words of the VGG.
const std::vector<GridCase> of_pictures{
    {2, 1, 1, 1, {}},
    {1, 2, 1, 1, {}},
    {1, 1, 2, 1, {"train.micro_batch_size=3"}},
    {1, 1, 1, 2, {"train.micro_batch_size=4"}},
    {2, 2, 1, 1, {recompute}},
    {2, 1, 1, 2, {megatron}},
    {1, 1, 2, 2, {fsdp, states}},
    {3, 1, 1, 1, {}},
    {1, 3, 1, 1, {}},
    {2, 2, 2, 1, {"train.micro_batch_size=4"}},
};

/// The words of the U-Net.
const std::vector<GridCase> of_diffusion{
    {2, 1, 1, 1, {}},
    {1, 2, 1, 1, {}},
    {1, 1, 2, 1, {"train.micro_batch_size=2"}},
    {1, 1, 1, 2, {"train.micro_batch_size=4"}},
    {2, 2, 1, 1, {recompute}},
    {4, 1, 1, 1, {}},
    {1, 1, 2, 2, {fsdp, states}},
    {2, 1, 2, 1, {}},
    {1, 2, 1, 2, {states}},
    {2, 2, 2, 1, {"train.micro_batch_size=4"}},
};

std::string name_of(const GridCase& grid) {
  return format("x {} y {} z {} data {} {}", grid.x, grid.y, grid.z, grid.data,
                join(grid.settings, " "));
}

class MpiTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_command("mpirun")) GTEST_SKIP() << "mpirun is not installed";
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / format("fourfold-{}-{}", info->name(), getpid());
    fs::create_directories(dir_);
  }
  /// What runs are compared with from here on.
  void compare_with(const char* text) {
    write_file_atomic((dir_ / "job.yaml").string(), text);
    serial_ = train({}, {"train.micro_batch_size=8"});
    ASSERT_GE(serial_.size(), 3U);
  }
  void TearDown() override { fs::remove_all(dir_); }

  /// The steps of a run; `launcher` is the beginning of its command line.
  std::vector<test::StepMetrics> train(std::vector<std::string> launcher,
                                       const std::vector<std::string>& settings) {
    const std::string folder = (dir_ / std::to_string(++runs_)).string();
    fs::create_directories(folder);
    launcher.insert(launcher.end(), {FOURFOLD_BINARY, "train", (dir_ / "job.yaml").string(),
                                     "--set", format("run.dir={}/run", folder)});
    for (const std::string& setting : settings)
      launcher.insert(launcher.end(), {std::string("--set"), setting});
    test::LaunchedJob job(launcher, folder);
    EXPECT_EQ(job.wait(test::hang_s), 0) << job.output();
    return test::steps_of(folder + "/run");
  }

  /// Trains on each grid; returns the largest relative difference to one rank.
  double worst_of(const std::vector<GridCase>& grids, double bound = most) {
    double worst = 0;
    for (const GridCase& grid : grids) {
      SCOPED_TRACE(name_of(grid));
      std::vector<std::string> settings{
          format("parallel.tensor={{x: {}, y: {}, z: {}}}", grid.x, grid.y, grid.z),
          format("parallel.data={}", grid.data)};
      settings.insert(settings.end(), grid.settings.begin(), grid.settings.end());
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<test::StepMetrics> steps = train(test::mpirun(grid.num_ranks()), settings);
      const double error = test::expect_equal_steps(steps, serial_, bound);
      std::printf("%2d ranks, %-75s %.1e  %.1f s\n", grid.num_ranks(), name_of(grid).c_str(), error,
                  test::seconds_since(begin));
      worst = std::max(worst, error);
    }
    std::printf("%zu grids under mpirun; largest difference to one rank: %.1e\n", grids.size(),
                worst);
    return worst;
  }

  fs::path dir_;
  int runs_ = 0;
  std::vector<test::StepMetrics> serial_;
};

TEST_F(MpiTraining, dropout_and_the_seed_are_seen_in_the_numbers_that_are_compared) {
  compare_with(config_text);
  const std::vector<test::StepMetrics> without = train({}, {"model.dropout=0"});
  const std::vector<test::StepMetrics> other = train({}, {"run.seed=2"});
  ASSERT_EQ(without.size(), serial_.size());
  ASSERT_EQ(other.size(), serial_.size());
  EXPECT_GT(std::abs(without[0].loss - serial_[0].loss), 1e-6);
  EXPECT_GT(std::abs(other[4].val_loss - serial_[4].val_loss), 1e-6);
}

/// A run that is long enough for a table of its own; two of its steps are done.
TEST_F(MpiTraining, all_ranks_compute_by_the_table_that_the_first_one_measures) {
  std::vector<std::string> words = test::mpirun(2);
  words.insert(words.begin() + 1, "XDG_CACHE_HOME=" + (dir_ / "cache").string());
  words.insert(words.end(), {FOURFOLD_BINARY, "train", FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml",
                             "--stop-at", "2", "--set", "train.steps=200000000",
                             // Most matrices have one shape, so that few products are measured.
                             "--set", "model.vocab_size=32", "--set", "model.ffn_hidden_size=32",
                             "--set", format("run.dir={}/measured", dir_.string())});
  test::LaunchedJob job(words, dir_.string());
  EXPECT_EQ(job.wait(test::hang_s), 0) << job.output();
  EXPECT_NE(job.output().find(" measured now in "), std::string::npos) << job.output();
  EXPECT_TRUE(fs::exists(dir_ / "measured/kernels.yaml"));
}

TEST_F(MpiTraining, the_processes_of_a_launcher_time_a_step_together) {
  std::vector<std::string> words = test::mpirun(2);
  words.insert(words.end(), {FOURFOLD_BINARY, "bench", "step",
                             FOURFOLD_SOURCE_DIR "/configs/gpt-tiny.yaml", "--job"});
  test::LaunchedJob job(words, dir_.string());
  EXPECT_EQ(job.wait(test::hang_s), 0) << job.output();
  const std::string output = job.output();
  const std::string part = " ms a step, the mean of the last 5";
  const auto place = output.find(part);
  ASSERT_NE(place, std::string::npos) << output;
  EXPECT_EQ(output.find(part, place + 1), std::string::npos) << "the first rank tells alone";
  EXPECT_NE(output.find("exposed "), std::string::npos) << output;
}

TEST_F(MpiTraining, on_a_grid_and_in_stages_equals_one_rank) {
  compare_with(config_text);
  EXPECT_LE(worst_of(sample), most);
  test::expect_equal_steps(train(test::mpirun(3), unequal_stages), serial_, most);
}

/// One of the grids each time; all with FOURFOLD_LONG.
TEST_F(MpiTraining, of_a_vgg_equals_one_rank) {
  compare_with(picture_text);
  constexpr double bound = 1e-10;  // ReLU makes many gradients near zero, by which AdamW divides
  EXPECT_LE(worst_of(is_long_run() ? of_pictures : std::vector{of_pictures[4]}, bound), bound);
}

TEST_F(MpiTraining, of_a_unet_equals_one_rank) {
  compare_with(diffusion_text);
  constexpr double bound = 1e-10;
  EXPECT_LE(worst_of(is_long_run() ? of_diffusion : std::vector{of_diffusion[6]}, bound), bound);
}

TEST_F(MpiTraining, on_every_kind_of_grid_equals_one_rank) {
  if (!is_long_run()) GTEST_SKIP() << "takes a minute; set FOURFOLD_LONG";
  compare_with(config_text);
  EXPECT_LE(worst_of(all), most);
}

}  // namespace
}  // namespace fourfold
