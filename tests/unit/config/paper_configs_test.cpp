// The configurations of published runs: sizes, parameter counts, grids.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/gpt.h"
#include "model/unet.h"
#include "model/vgg.h"
#include "plan/plan.h"
#include "support/infeasible_words.h"

namespace fourfold::config {
namespace {

/// A row of AxoNN's tables I and III. `billions`: parameters with the tied table of 51200 tokens
/// and that of 2048 positions; the table's labels ("80B") are rounder than its sizes.
struct Published {
  std::string file;
  std::int64_t layers, hidden, heads, ranks;
  double billions;
};

const std::vector<Published> axonn = {
    {"gpt-5b", 24, 4096, 32, 64, 5.05},      {"gpt-10b", 32, 5120, 40, 128, 10.34},
    {"gpt-20b", 32, 7168, 56, 256, 20.11},   {"gpt-40b", 38, 9216, 72, 512, 39.23},
    {"gpt-80b", 42, 12288, 96, 1024, 76.76},
};

Config load_published(const Published& run) {
  const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) + "/configs/paper/" +
                                          run.file + ".yaml"};
  return load(files, {});
}

TEST(PaperConfigs, have_the_sizes_and_the_batch_of_the_paper) {
  for (const Published& run : axonn) {
    const Config config = load_published(run);
    EXPECT_EQ(config.gpt.num_layers, run.layers) << run.file;
    EXPECT_EQ(config.gpt.hidden_size, run.hidden) << run.file;
    EXPECT_EQ(config.gpt.num_attention_heads, run.heads) << run.file;
    EXPECT_EQ(config.gpt.ffn_hidden_size, 4 * run.hidden) << run.file;
    EXPECT_EQ(config.gpt.vocab_size, 51200) << run.file;
    EXPECT_TRUE(config.gpt.tied_head && config.gpt.bias) << run.file;
    EXPECT_EQ(config.data.seq_length, 2048) << run.file;
    EXPECT_EQ(config.data.format, data::Format::synthetic) << run.file;
    EXPECT_EQ(config.plan.global_batch_size, 2048) << run.file;  // 4 Mi tokens
    EXPECT_EQ(config.plan.compute, DType::bf16) << run.file;
    EXPECT_EQ(config.plan.checkpointing.layers, 1) << run.file;
  }
}

TEST(PaperConfigs, have_the_number_of_parameters_that_follows_from_the_sizes) {
  for (const Published& run : axonn) {
    std::int64_t total = 0;
    for (const auto& part : model::count_parameters(load_published(run).gpt))
      total += part.parameters;
    const std::int64_t l = run.layers, h = run.hidden;
    // A block: 4 h^2 of attention, 8 h^2 of the MLP, 9 h of biases, 4 h of two norms.
    EXPECT_EQ(total, 12 * l * h * h + 13 * l * h + 2 * h + (51200 + 2048) * h) << run.file;
    EXPECT_EQ(std::round(static_cast<double>(total) / 1e7) / 100, run.billions) << run.file;
  }
}

TEST(PaperConfigs, of_axonns_ablation_and_check_have_the_grids_of_the_paper_and_every_switch_on) {
  const auto loaded = [](const char* file) {
    const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) + "/configs/paper/" +
                                            file + ".yaml"};
    return load(files, {});
  };
  const Config ablation = loaded("axonn-ablation-gpt-20b"), check = loaded("axonn-check-gpt-125m");
  const plan::Grid& paper = ablation.plan.grid;
  EXPECT_EQ((std::vector{paper.x, paper.y, paper.z, paper.data}),
            (std::vector<std::int64_t>{2, 2, 4, 1}));
  EXPECT_EQ(ablation.plan.global_batch_size, 16);
  EXPECT_EQ(ablation.data.seq_length, 2048);
  const plan::Grid& twos = check.plan.grid;
  EXPECT_EQ((std::vector{twos.x, twos.y, twos.z, twos.data}),
            (std::vector<std::int64_t>{2, 2, 2, 2}));
  for (const Config* config : {&ablation, &check}) {
    EXPECT_EQ(config->plan.overlap, plan::Overlap());
    EXPECT_GT(config->plan.bucket_bytes, 0);
    EXPECT_EQ(config->plan.checkpointing.layers, 1);
    EXPECT_NE(config->plan.cached_gathers, 0);
  }
}

plan::DataRanks data_ranks_of(const Config& config) {
  return config.open_axes.data ? plan::DataRanks::open : plan::DataRanks::stated;
}

TEST(PaperConfigs, have_a_grid_for_the_ranks_of_the_paper_that_divides_the_batch) {
  for (const Published& run : axonn) {
    const Config config = load_published(run);
    plan::PlanSpec spec = config.plan_spec();
    const auto grid = plan::solve_grid(spec, run.ranks, data_ranks_of(config));
    ASSERT_TRUE(std::holds_alternative<plan::Grid>(grid))
        << test::in_words(std::get<plan::Infeasible>(grid));
    EXPECT_EQ(plan::num_ranks(spec.grid), run.ranks) << run.file << " says it without --ranks too";
    spec.grid = std::get<plan::Grid>(grid);
    EXPECT_TRUE(std::holds_alternative<plan::Batching>(plan::solve_batching(spec))) << run.file;
  }
}

/// Rhino, table 3: VGG19 with a million classes has 4.2 billion parameters.
TEST(PaperConfigs, vgg19_has_the_size_that_rhino_prints) {
  const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) +
                                          "/configs/paper/vgg19.yaml"};
  const Config config = load(files, {});
  double count = 0;
  for (const auto& part : model::count_parameters(config.vgg))
    count += static_cast<double>(part.parameters);
  // Simonyan, Zisserman 2015, table 2: 144 million with a thousand classes, 4.1 million of them in
  // the last layer.
  EXPECT_EQ(count, 143'667'240 - 1000 * 4097 + 1'000'000 * 4097.0);
  EXPECT_NEAR(count / 1e9, 4.2, 0.05);
}

/// AxoNN, table II, with the levels of the network for CIFAR-10 of Nichol, Dhariwal 2021.
struct PublishedUnet {
  std::string file;
  std::int64_t channels, ranks;
  double millions;
};
const std::vector<PublishedUnet> unets = {
    {"paper/unet-250m", 256, 64, 210},   {"paper/unet-500m", 416, 128, 554},
    {"paper/unet-1b", 512, 256, 840},    {"paper/unet-2b", 768, 512, 1889},
    {"paper/unet-4b", 1024, 1024, 3357}, {"paper/axonn-check-unet-50m", 128, 16, 52.5},
    {"unet-cifar10-50m", 128, 1, 52.5},
};

TEST(PaperConfigs, unets_have_the_channels_the_parameters_and_the_ranks_of_the_paper) {
  for (const PublishedUnet& run : unets) {
    const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) + "/configs/" +
                                            run.file + ".yaml"};
    const Config config = load(files, {});
    EXPECT_EQ(config.unet.channels, run.channels) << run.file;
    EXPECT_EQ(config.unet.diffusion.steps, 4000) << run.file;
    EXPECT_TRUE(config.unet.diffusion.learn_sigma) << run.file;
    double count = 0;
    for (const auto& part : model::count_parameters(config.unet))
      count += static_cast<double>(part.parameters);
    EXPECT_NEAR(count / 1e6, run.millions, run.millions < 100 ? 0.05 : 0.5) << run.file;
    const auto grid = plan::solve_grid(config.plan_spec(), run.ranks, data_ranks_of(config));
    ASSERT_TRUE(std::holds_alternative<plan::Grid>(grid))
        << test::in_words(std::get<plan::Infeasible>(grid));
    EXPECT_EQ(plan::num_ranks(std::get<plan::Grid>(grid)), run.ranks) << run.file;
  }
}

/// The models of Zhuang et al. 2023 (arXiv:2211.05322), table 3.
Config load_of_resharding(const char* file) {
  const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) + "/configs/paper/" +
                                          file + ".yaml"};
  return load(files, {});
}

template <typename Spec>
std::int64_t total_parameters(const Spec& spec) {
  std::int64_t total = 0;
  for (const auto& part : model::count_parameters(spec)) total += part.parameters;
  return total;
}

std::int64_t accumulation_of(const Config& config) {
  return std::get<plan::Batching>(plan::solve_batching(config.plan_spec())).accumulation;
}

TEST(PaperConfigs, the_gpt_of_the_resharding_paper_has_the_parameters_of_its_label) {
  const Config config = load_of_resharding("gpt-2.6b");
  const std::int64_t l = 32, h = 2560, sequence = 1024, vocabulary = 51200;
  const std::int64_t total = total_parameters(config.gpt), head = vocabulary * h;
  EXPECT_EQ(total - head, 12 * l * h * h + 13 * l * h + 2 * h + (vocabulary + sequence) * h);
  EXPECT_NEAR(static_cast<double>(total - head) / 1e9, 2.6, 0.06);
  EXPECT_EQ(config.data.seq_length, sequence);
  EXPECT_EQ(config.plan.global_batch_size, 1024);
  EXPECT_EQ(config.plan.compute, DType::bf16);  // as many bytes as the paper's FP16
  EXPECT_EQ(plan::num_ranks(config.plan.grid), 4);
  EXPECT_EQ(accumulation_of(config), 128);
}

/// The U-Net of `model/unet.h`, counted from its description: in levels of c, 2 c, 4 c and 4 c
/// channels one residual block on the way down and two on the way up, attention after each; two
/// blocks in the middle with attention between them.
TEST(PaperConfigs, the_u_transformer_has_the_parameters_of_its_label) {
  const std::int64_t c = 672, told = 4 * c;
  const auto convolution = [](std::int64_t in, std::int64_t out) { return 9 * in * out + out; };
  const auto linear = [](std::int64_t in, std::int64_t out) { return in * out + out; };
  const auto residual = [&](std::int64_t in, std::int64_t out, bool has_shortcut) {
    return 2 * in + convolution(in, out) + linear(told, 2 * out) + 2 * out + convolution(out, out) +
           (has_shortcut ? linear(in, out) : 0);
  };
  const auto attention = [&](std::int64_t w) { return 2 * w + linear(w, 3 * w) + linear(w, w); };
  std::int64_t expected = linear(c, told) + linear(told, told) + convolution(3, c);
  // Down: the first convolution, each level's block and the halved picture are read on the way up.
  std::vector<std::int64_t> skips = {c};
  std::int64_t width = c;
  const std::vector<std::int64_t> widths = {c, 2 * c, 4 * c, 4 * c};
  for (std::size_t level = 0; level < 4; ++level) {
    expected += residual(width, widths[level], width != widths[level]) + attention(widths[level]);
    width = widths[level];
    skips.push_back(width);
    if (level == 3) continue;
    expected += convolution(width, width);
    skips.push_back(width);
  }
  expected += 2 * residual(width, width, false) + attention(width);
  for (std::size_t level = 4; level-- > 0;) {
    for (int block = 0; block < 2; ++block) {
      expected += residual(width + skips.back(), widths[level], true) + attention(widths[level]);
      skips.pop_back();
      width = widths[level];
    }
    if (level > 0) expected += convolution(width, width);
  }
  expected += 2 * c + convolution(c, 3);

  const Config config = load_of_resharding("utransformer-2.1b");
  const std::int64_t total = total_parameters(config.unet);
  EXPECT_EQ(total, expected);
  EXPECT_NEAR(static_cast<double>(total) / 1e9, 2.1, 0.05);
  EXPECT_EQ(config.unet.picture, (std::vector<std::int64_t>{32, 32, 3}));
  EXPECT_EQ(config.plan.global_batch_size, 2048);
  EXPECT_EQ(config.plan.compute, DType::f32);
  EXPECT_EQ(accumulation_of(config), 32);
}

}  // namespace
}  // namespace fourfold::config
