#include "config/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/random.h"
#include "config/schema.h"
#include "unit/config/scratch.h"

namespace fourfold::config {
namespace {

/// Sets each field to a random value inside its bounds.
class Randomizer {
 public:
  Randomizer(Config& config, std::uint64_t seed)
      : config_(config), random_(seed, random_stream("config")) {}
  void fill() {
    for (const Key& key : keys()) {
      key_ = &key;
      std::visit(*this, key.field);
    }
    make_consistent();
    share_values(config_);
  }

  void operator()(const Place<bool>& place) { place(config_) = below(2) == 1; }
  void operator()(const Place<int>& place) { place(config_) = static_cast<int>(below(100)); }
  void operator()(const Place<std::int64_t>& place) {
    place(config_) = 1 + static_cast<std::int64_t>(below(500));
  }
  void operator()(const Place<std::uint64_t>& place) {
    place(config_) = below(std::uint64_t{1} << 63);
  }
  void operator()(const Place<double>& place) { place(config_) = number(); }
  void operator()(const Place<std::string>& place) {
    const std::vector<std::string> pieces = {"a", "\n",     "\t",   "\"", "\\", ": ", "#",
                                             "'", "\u00e9", "\x01", " ",  "{",  "*"};
    std::string& text = place(config_) = "x";
    for (std::uint64_t i = below(8); i > 0; --i) text += pieces[below(pieces.size())];
  }
  void operator()(const Choice& choice) { choice.set(config_, below(choice.names.size())); }
  void operator()(const Pair& pair) {
    pair.first(config_) = number();
    pair.second(config_) = number();
  }
  void operator()(const Place<plan::Checkpointing>& place) {
    place(config_).blocks = static_cast<std::int64_t>(below(4));
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound, draws_++, 0); }
  double number() {
    const double unit = random_.uniform(draws_++, 0);
    const bool is_fraction = key_->bounds.most <= 1;
    const double value =
        is_fraction ? unit : unit * std::pow(10, 20 * random_.uniform(draws_++, 0) - 12);
    return value == 0 ? 0.5 : value;
  }
  /// Meets the relations between keys.
  void make_consistent() {
    config_.name = "run-" + std::to_string(below(1000));
    config_.model.hidden_size *= config_.model.num_attention_heads;
    config_.plan.global_batch_size *= config_.plan.micro_batch_size;
    config_.model.max_position_embeddings += config_.data.seq_length;
    config_.model.num_layers += 3;
    config_.model.vocab_size += 256;
    auto& schedule = config_.train.schedule;
    schedule.min_lr = std::min(schedule.min_lr, schedule.lr);
    schedule.decay_steps += schedule.warmup_steps;
    config_.train.steps += schedule.warmup_steps + schedule.decay_steps;
    if (config_.data.format == data::Format::synthetic) config_.sample.tokens = 0;
  }

  Config& config_;
  const Key* key_ = nullptr;
  Random random_;
  std::uint64_t draws_ = 0;
};

TEST(ResolvedYaml, reading_it_back_gives_the_same_configuration) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Config config;
    Randomizer(config, seed).fill();
    const std::string text = resolved_yaml(config);
    ASSERT_EQ(problems_of(text), "") << text;
    ASSERT_TRUE(load_text(text) == config) << text;
  }
}

TEST(ResolvedYaml, every_key_is_explicit) {
  const std::string text = resolved_yaml(load_text("data: {path: x}\n"));
  for (const Key& key : keys())
    EXPECT_NE(text.find(std::string(leaf_of(key.path)) + ": "), std::string::npos) << key.path;
}

TEST(ResolvedYaml, is_its_own_resolution) {
  const std::string text = resolved_yaml(load_text("data: {path: x}\n"));
  EXPECT_EQ(resolved_yaml(load_text(text)), text);
}

TEST(Configs, every_file_of_configs_loads_and_resolves_to_itself) {
  std::size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(FOURFOLD_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    const std::vector<std::string> files = {entry.path().string()};
    const Config config = load(files, {});
    EXPECT_TRUE(load_text(resolved_yaml(config)) == config) << entry.path();
    EXPECT_EQ(config.name, entry.path().stem());
  }
  EXPECT_GE(count, 4U);
}

TEST(Configs, the_shakespeare_run_has_the_sizes_nanogpt_publishes) {
  const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) +
                                          "/configs/gpt-shakespeare-char.yaml"};
  const Config config = load(files, {});
  EXPECT_EQ(config.model.num_layers, 4);
  EXPECT_EQ(config.model.num_attention_heads, 4);
  EXPECT_EQ(config.model.hidden_size, 128);
  EXPECT_EQ(config.data.seq_length, 64);
  EXPECT_EQ(config.plan.global_batch_size, 12);
  EXPECT_EQ(config.train.steps, 2000);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_FALSE(config.model.bias);
  EXPECT_TRUE(config.model.tied_head);
}

}  // namespace
}  // namespace fourfold::config
