#include "config/print.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "config/compare.h"
#include "config/schema.h"
#include "config/value.h"
#include "model/model.h"
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
    if (config_.kind == model::Kind::llama) config_.gpt = {};  // which shares keys with it
    // Settings of another kind of model are not printed: they have their defaults.
    for (const Key& key : keys())
      if (!applies(key, config_)) store_fallback(key, config_);
    for (const Key& key : keys())
      if (!applies(key, config_) && key.derive) key.derive(config_);
  }

  void operator()(const Place<bool>& place) { place(config_) = below(2) == 1; }
  void operator()(const Place<int>& place) { place(config_) = static_cast<int>(below(100)); }
  void operator()(const Place<std::int64_t>& place) {
    const auto least = static_cast<std::int64_t>(std::max(1.0, key_->bounds.least));
    place(config_) = least + static_cast<std::int64_t>(below(500));
  }
  void operator()(const Place<std::uint64_t>& place) {
    place(config_) = below(std::uint64_t{1} << 63);
  }
  void operator()(const Place<std::optional<std::int64_t>>& place) {
    place(config_).reset();
    if (below(2) == 1) place(config_) = 1 + static_cast<std::int64_t>(below(8));
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
  void operator()(const Permutation& permutation) {
    std::vector<std::string> names = permutation.names;
    for (std::size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[below(i)]);
    permutation.place(config_) = std::move(names);
  }
  void operator()(const Integers& list) {
    std::vector<std::int64_t>& numbers = list.place(config_) = {};
    for (std::uint64_t i = below(std::min<std::uint64_t>(list.most_items, 5)); i > 0; --i)
      numbers.push_back(
          !list.zero.empty() && below(3) == 0 ? 0 : 1 + static_cast<std::int64_t>(below(500)));
  }
  void operator()(const Place<std::vector<double>>& place) { place(config_) = {number()}; }
  void operator()(const Place<data::BadPictures>& place) {
    place(config_).skip.reset();
    if (below(2) == 1) place(config_).skip = static_cast<std::int64_t>(below(100));
  }
  void operator()(const Amount& amount) {
    const bool is_open = !amount.open.empty() && below(3) == 0;
    amount.set(config_, is_open ? std::nullopt
                                : std::optional(static_cast<std::int64_t>(
                                      below(amount.is_size ? std::uint64_t{1} << 40 : 9))));
  }
  void operator()(const Place<Blend>& place) {
    Blend& blend = place(config_) = {};
    for (std::uint64_t i = below(3); i > 0; --i)
      blend.push_back({"a\n\"" + std::to_string(i), number()});
  }
  void operator()(const Place<Pins>& place) {
    Pins& pins = place(config_) = {};
    for (std::uint64_t i = below(3); i > 0; --i)
      pins.push_back({"a*: \"" + std::to_string(i), {{{}, {"y", "z"}}, {8, {}}}});
  }
  void operator()(const Place<plan::Checkpointing>& place) {
    place(config_).layers = static_cast<std::int64_t>(below(4));
  }

  void operator()(const Place<Grids>& place) { place(config_).clear(); }  // see make_consistent
  void operator()(const Place<pipeline::WeightDelay>& place) {
    using Kind = pipeline::WeightDelay::Kind;
    place(config_) = {static_cast<Kind>(below(3)), 0};
    if (place(config_).kind == Kind::fixed) place(config_).micros = std::int64_t(below(9));
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
    make_grid_consistent();
    make_stages_consistent();
    if (config_.micro_batch_size) *config_.micro_batch_size *= config_.plan.chunks;
    config_.plan.global_batch_size *=
        config_.micro_batch_size.value_or(1) * config_.plan.grid.z * config_.plan.grid.data;
    config_.gpt.max_position_embeddings += config_.data.seq_length;
    config_.gpt.num_layers += 3;
    config_.gpt.vocab_size += 256;
    // Settings of other optimizers are as they begin.
    graph::OptimizerSpec optimizer;
    optimizer.kind = config_.optimizer.kind;
    graph::visit_optimizer(config_.optimizer, [&](const auto& row) {
      std::get<std::remove_cvref_t<decltype(row)>>(optimizer.settings) = row;
    });
    config_.optimizer.settings = optimizer.settings;
    auto& schedule = config_.train.schedule;
    schedule.min_lr = std::min(schedule.min_lr, schedule.lr);
    schedule.decay_steps += schedule.warmup_steps;
    config_.train.steps += schedule.warmup_steps + schedule.decay_steps;
    const bool may_be_wide = config_.plan.compute == DType::bf16 &&
                             config_.residual == DType::f32 && config_.family().has_residual_stream;
    if (!may_be_wide) config_.residual = config_.plan.compute;
    if (config_.plan.compute != DType::bf16) config_.plan.rounds_gradients = false;
    if (config_.data.format == data::Format::synthetic) config_.sample.tokens = 0;
    if (config_.sample.tokens == 0) config_.sample.interval = 0;
    make_llama_consistent();
    make_data_consistent();
  }

  void make_llama_consistent() {
    if (config_.kind != model::Kind::llama) return;
    model::LlamaSpec& llama = config_.llama;
    llama.max_position_embeddings += config_.data.seq_length;
    llama.num_layers += 3;
    llama.vocab_size += 256;
    llama.num_key_value_heads = 1 + llama.num_key_value_heads % 50;
    llama.num_attention_heads = (1 + llama.num_attention_heads % 50) * llama.num_key_value_heads;
    llama.head_dim = 2 + llama.head_dim % 500 * 2;
    llama.hidden_size = (1 + llama.hidden_size % 200) * config_.plan.grid.y;
    model::RopeSpec& rope = llama.rope;
    const model::RopeSpec plain;
    rope.theta += 2;
    rope.factor += 1;
    rope.high_freq_factor += rope.low_freq_factor + 1;
    rope.beta_fast += rope.beta_slow + 1;
    if (rope.kind == model::RopeKind::plain) rope.factor = plain.factor;
    if (rope.kind != model::RopeKind::llama3) {
      rope.low_freq_factor = plain.low_freq_factor;
      rope.high_freq_factor = plain.high_freq_factor;
    }
    if (rope.kind != model::RopeKind::yarn) {
      rope.beta_fast = plain.beta_fast;
      rope.beta_slow = plain.beta_slow;
      rope.attention_factor = plain.attention_factor;
      rope.truncate = plain.truncate;
    }
  }

  void make_stages_consistent() {
    plan::PipelineSpec& pipeline = config_.plan.pipeline;
    const bool is_one_mesh =
        config_.open_axes.are_planned() || config_.plan.strategy == plan::Strategy::searched;
    pipeline.stages = is_one_mesh ? 1 : 1 + static_cast<std::int64_t>(below(3));
    const bool is_shared = pipeline.schedule == pipeline::Schedule::interleaved && below(2) == 1;
    pipeline.stages_per_mesh = is_shared ? pipeline.stages : 1;
    const bool is_eager_and_delayed =
        pipeline.schedule == pipeline::Schedule::eager_one_f_one_b &&
        pipeline.weight_delay.kind != pipeline::WeightDelay::Kind::none;
    if (pipeline.stages_per_mesh > 1 || is_eager_and_delayed) config_.plan.overlap.send_recv = true;
    if (!pipeline.layers.empty()) pipeline.layers.resize(std::size_t(pipeline.stages), 7);
    if (config_.open_axes.stages) pipeline.layers.clear();
    const plan::PlanSpec& plan = config_.plan;
    const bool says_all = plan.strategy == plan::Strategy::axonn && plan.pins.empty() &&
                          !plan.shard_states && pipeline.stages == 1;
    if (config_.open_axes.are_planned() || (!says_all && plan.strategy != plan::Strategy::searched))
      config_.layout.clear();
    if (below(2) == 1 || config_.open_axes.are_planned() || !config_.layout.empty()) return;
    plan::Grid& grid = config_.plan.grid;
    grid.x = grid.y = grid.z = 1;
    grid.data = 1;
    config_.open_axes.data = true;
    for (std::int64_t mesh = 0; mesh < pipeline.meshes(); ++mesh)
      pipeline.grids.push_back({.x = 1 + mesh, .y = 2, .data = 3});
    if (config_.plan.strategy != plan::Strategy::axonn) pipeline.grids.clear();
  }

  void make_data_consistent() {
    data::DataSpec& data = config_.data;
    if (config_.family().reads == model::Reads::pictures) {
      make_pictures_consistent();
      return;
    }
    if (data.format == data::Format::pictures) data.format = data::Format::text;
    if (data.format == data::Format::text || data.format == data::Format::synthetic)
      data.blend.clear();
    else if (!data.blend.empty())
      data.path.clear();
    if (data.tokenizer == tokenizer::TokenizerKind::character ||
        data.tokenizer == tokenizer::TokenizerKind::byte)
      data.tokenizer_path.clear();
    if (data.format != data::Format::synthetic) return;
    data.mask_documents = data.restart_positions = false;
    data.validation.clear();
  }

  void make_pictures_consistent() {
    if (config_.data.format != data::Format::synthetic)
      config_.data.format = data::Format::pictures;
    else
      config_.data.validation.clear();
    model::VggSpec& vgg = config_.vgg;
    if (vgg.widths.empty() || vgg.widths[0] == 0) vgg.widths.insert(vgg.widths.begin(), 8);
    model::DataFacts facts = model::data_facts(config_.model());
    if (facts.picture.size() != 3 && config_.data.format != data::Format::synthetic)
      facts.picture.clear();
    else
      facts.picture = {64, 80, 3};
    facts.num_labels = 1 + facts.num_labels % 100;
    config_.set_model(model::settled(config_.model(), facts));
    model::UnetSpec& unet = config_.unet;
    unet.channel_mult.resize(1 + unet.channel_mult.size() % 4, 2);
    unet.num_heads = 1 + unet.num_heads % 8;
    unet.norm_groups = 1 + unet.norm_groups % 8;
    unet.channels = (1 + unet.channels % 100) * unet.num_heads * unet.norm_groups;
    unet.diffusion.sampling.steps = std::min(unet.diffusion.sampling.steps, unet.diffusion.steps);
    config_.plan.shard_sequence = false;
  }

  void make_grid_consistent() {
    plan::Grid& grid = config_.plan.grid;
    for (std::int64_t* size : {&grid.x, &grid.y, &grid.z, &grid.data}) *size = 1 + *size % 8;
    const OpenAxes& open = config_.open_axes;
    if (open.x) grid.x = 1;
    if (open.y) grid.y = 1;
    if (open.z) grid.z = 1;
    if (open.data) grid.data = 1;
    const plan::Strategy strategy = config_.plan.strategy;
    if (strategy == plan::Strategy::megatron || strategy == plan::Strategy::fsdp) grid.y = 1;
    if (strategy == plan::Strategy::megatron || strategy == plan::Strategy::atp) grid.z = 1;
    if (strategy == plan::Strategy::fsdp) grid.x = 1;
    if (strategy != plan::Strategy::megatron) config_.plan.shard_sequence = false;
    config_.gpt.hidden_size =
        (1 + config_.gpt.hidden_size % 200) * config_.gpt.num_attention_heads * grid.y;
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
  for (const char* model :
       {"data: {path: x}\n", "model: {kind: vgg}\ndata: {format: pictures, path: x}\n"}) {
    const Config config = load_text(model);
    const std::string text = resolved_yaml(config);
    // Names that stand in several sections.
    const std::set<std::string_view> shared = {
        "dropout", "interval", "steps", "picture", "num_classes", "num_attention_heads", "kind"};
    for (const Key& key : keys()) {
      if (shared.contains(leaf_of(key.path))) continue;
      EXPECT_EQ(
          text.find("\n  " + std::string(leaf_of(key.path)) + ": ") != std::string::npos ||
              text.find("\n    " + std::string(leaf_of(key.path)) + ": ") != std::string::npos ||
              text.find("\n" + std::string(leaf_of(key.path)) + ": ") != std::string::npos,
          applies(key, config))
          << key.path;
    }
  }
}

TEST(ResolvedYaml, sections_in_sections_are_indented) {
  const std::string text = resolved_yaml(
      load_text("data: {path: x}\nparallel: {tensor: {x: 2}, order: [data, z, y, x]}\n"));
  EXPECT_NE(text.find("\nparallel:\n"
                      "  strategy: axonn\n"
                      "  tensor:\n"
                      "    x: 2\n"
                      "    y: 1\n"
                      "    z: 1\n"
                      "  data: auto\n"
                      "  order: [data, z, y, x]\n"
                      "  pipeline:\n"
                      "    stages: 1\n"
                      "    stages_per_mesh: 1\n"
                      "    schedule: 1f1b\n"
                      "    weight_delay: none\n"
                      "    blocks: []\n"
                      "    meshes: []\n"
                      "    transfer: broadcast\n"
                      "    transfer_chunks: auto\n"
                      "    ranks_per_host: auto\n"
                      "  pin: {}\n"
                      "  layout: \"\"\n"
                      "  shard_sequence: false\n"
                      "  overlap:\n"
                      "    all_reduce: true\n"
                      "    reduce_scatter: true\n"
                      "    all_gather: true\n"
                      "    send_recv: true\n"
                      "    weight_gradients: auto\n"
                      "  buckets: 4MiB\n"
                      "  chunks: 1\n"
                      "\nmemory:\n"),
            std::string::npos)
      << text;
}

TEST(ShownYaml, has_the_origin_of_each_value_in_one_column) {
  const std::string text = shown_yaml(
      load_text("data: {path: x}\nmodel:\n  hidden_size: 64\n", {"train.steps=5", "run.name=n"}));
  std::size_t column = 0;
  for (const char* line :
       {"  hidden_size: 64  ", "  # ffn_hidden_size: 256  ", "  steps: 5  ", "  bias: true  "}) {
    const auto begin = text.find(line);
    ASSERT_NE(begin, std::string::npos) << line << text;
    const auto comment = text.find("  # ", begin + 4) - begin;
    EXPECT_EQ(std::exchange(column, comment), column == 0 ? 0 : comment) << text;
  }
  const auto origin = [&](const std::string& key) {
    const auto comment = text.find("  # ", text.find(" " + key + ": "));
    return text.substr(comment + 4, text.find('\n', comment) - comment - 4);
  };
  EXPECT_TRUE(origin("hidden_size").ends_with("/a.yaml:3")) << text;
  EXPECT_EQ(origin("ffn_hidden_size"), "derived");
  EXPECT_EQ(origin("steps"), "--set #1");
  EXPECT_EQ(origin("name"), "--set #2");
  EXPECT_EQ(origin("bias"), "default");
}

TEST(ShownYaml, reading_it_back_gives_the_same_configuration_and_its_origins) {
  const Scratch scratch;
  const std::vector<std::string> files = {scratch.write(
      "a.yaml", "data: {path: x}\nsample:\n  prompt: 'a  # b'\nmodel:\n  hidden_size: 64\n")};
  Config config = load(files, {});
  config.gpt.vocab_size = 65;  // settled by the run
  const std::string text = shown_yaml(config);
  const std::vector<std::string> shown = {scratch.write("shown.yaml", text)};
  Config again = load(shown, {});
  EXPECT_TRUE(again == config);
  EXPECT_TRUE(again.origins.find("model.hidden_size")->place.starts_with(shown[0] + ":"));
  restore_origins(again, shown[0], text);
  EXPECT_EQ(again.origins.find("model.hidden_size")->place, files[0] + ":5");
  EXPECT_EQ(again.origins.find("model.bias")->place, "default");
  EXPECT_EQ(again.origins.find("model.vocab_size")->place, "derived");
  EXPECT_EQ(again.origins.find("sample.prompt")->place, files[0] + ":3");
  EXPECT_EQ(shown_yaml(again), text);
}

TEST(ShownYaml, what_follows_from_other_keys_follows_what_is_set_over_the_text) {
  const Scratch scratch;
  const Config config = load_text("data: {path: x}\nrun: {name: a}\noptimizer: {lr: 6e-4}\n",
                                  {"model.ffn_hidden_size=512"});
  EXPECT_EQ(config.train.schedule.min_lr, 6e-5);
  const std::vector<std::string> shown = {scratch.write("shown.yaml", shown_yaml(config))};
  EXPECT_TRUE(load(shown, {}) == config);
  const std::vector<std::string> sets = {"optimizer.lr=1e-5", "train.steps=40", "run.name=b",
                                         "model.hidden_size=256"};
  const Config other = load(shown, sets);
  EXPECT_EQ(other.train.schedule.min_lr, 1e-6);
  EXPECT_EQ(other.train.schedule.warmup_steps, 2);
  EXPECT_EQ(other.train.schedule.decay_steps, 40);
  EXPECT_EQ(other.dir, "runs/b");
  EXPECT_EQ(other.gpt.ffn_hidden_size, 512) << "it was set, though to what would follow";
}

TEST(ShownYaml, what_the_run_settled_is_fixed_and_what_only_resembles_it_may_be_marked) {
  Config config = load_text("data: {path: x}\n");
  config.train.schedule.decay_steps = 170;  // does not follow
  EXPECT_NE(shown_yaml(config).find("\n  decay_steps: 170"), std::string::npos);
  Config read = load_text(resolved_yaml(config));
  EXPECT_NE(shown_yaml(read).find("\n  min_lr: 0.0001 "), std::string::npos);
  mark_followers(read);
  EXPECT_NE(shown_yaml(read).find("\n  # min_lr: 0.0001 "), std::string::npos);
  EXPECT_NE(shown_yaml(read).find("\n  decay_steps: 170"), std::string::npos);
}

TEST(Differences, are_the_keys_whose_values_differ_with_both_origins) {
  const Config a = load_text("data: {path: x}\nrun: {name: a, dir: d}\n"),
               b = load_text("data: {path: x}\nrun: {name: a, dir: d}\n",
                             {"model.hidden_size=64", "optimizer.betas=[0.9, 0.99]"});
  EXPECT_TRUE(differences(a, a).empty());
  const auto found = differences(a, b);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].key, "model.hidden_size");
  EXPECT_EQ(found[0].left.value, "128");
  EXPECT_EQ(found[0].left.place, "default");
  EXPECT_EQ(found[0].right.value, "64");
  EXPECT_EQ(found[0].right.place, "--set #1");
  EXPECT_EQ(found[1].key, "model.ffn_hidden_size");
  EXPECT_EQ(found[1].right.place, "derived");
  EXPECT_EQ(found[2].key, "optimizer.betas");
}

TEST(ResolvedYaml, is_its_own_resolution) {
  const std::string text = resolved_yaml(load_text("data: {path: x}\n"));
  EXPECT_EQ(resolved_yaml(load_text(text)), text);
}

TEST(Configs, every_file_of_configs_loads_and_resolves_to_itself) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::string(FOURFOLD_SOURCE_DIR) + "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    if (entry.path().parent_path().filename() == "machines") continue;  // cluster_file_test.cpp
    ++count;
    const std::vector<std::string> files = {entry.path().string()};
    const Config config = load(files, {});
    EXPECT_TRUE(load_text(resolved_yaml(config)) == config) << entry.path();
    EXPECT_EQ(config.name, entry.path().stem());
  }
  EXPECT_GE(count, 9U);
}

TEST(Configs, the_shakespeare_run_has_the_sizes_nanogpt_publishes) {
  const std::vector<std::string> files = {std::string(FOURFOLD_SOURCE_DIR) +
                                          "/configs/gpt-shakespeare-char.yaml"};
  const Config config = load(files, {});
  EXPECT_EQ(config.gpt.num_layers, 4);
  EXPECT_EQ(config.gpt.num_attention_heads, 4);
  EXPECT_EQ(config.gpt.hidden_size, 128);
  EXPECT_EQ(config.data.seq_length, 64);
  EXPECT_EQ(config.plan.global_batch_size, 12);
  EXPECT_EQ(config.train.steps, 2000);
  EXPECT_EQ(std::get<op::AdamW>(config.optimizer.settings).beta2, 0.99);
  EXPECT_FALSE(config.gpt.bias);
  EXPECT_TRUE(config.gpt.tied_head);
}

}  // namespace
}  // namespace fourfold::config
