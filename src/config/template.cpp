#include "config/template.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "config/config.h"
#include "config/print.h"
#include "config/schema.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

struct Size {
  std::string_view name, source;
  model::Kind kind;
  std::vector<std::pair<const char*, std::string>> settings;  // chosen for it
  std::int64_t vocabulary = 0;                                // 0: the tokenizer's
};

constexpr std::string_view gpt3 = "GPT-3 (Brown et al. 2020), table 2.1";
constexpr std::int64_t gpt2_tokens = 50257;  // of GPT-2's byte-pair vocabulary

/// The batches of a GPT are chosen here: half a million tokens a step and more, as GPT-3 grows, and
/// few samples at once.
struct GptBatch {
  std::int64_t seq_length, global, micro;
};

Size gpt(std::string_view name, std::string_view source, std::int64_t layers, std::int64_t heads,
         std::int64_t hidden, const GptBatch& batch, std::int64_t vocabulary, const char* lr) {
  const auto number = [](std::int64_t value) { return format("{}", value); };
  Size size{name, source, model::Kind::gpt, {}, vocabulary};
  size.settings = {{"model.num_layers", number(layers)},
                   {"model.num_attention_heads", number(heads)},
                   {"model.hidden_size", number(hidden)}};
  if (vocabulary > 0) size.settings.emplace_back("model.vocab_size", number(vocabulary));
  size.settings.emplace_back("data.path", "data/bible.txt");
  size.settings.emplace_back("data.seq_length", number(batch.seq_length));
  size.settings.emplace_back("train.global_batch_size", number(batch.global));
  if (batch.micro < batch.global)
    size.settings.emplace_back("train.micro_batch_size", number(batch.micro));
  size.settings.emplace_back("optimizer.lr", lr);
  return size;
}

const std::vector<Size>& sizes() {
  static const std::vector<Size> table = {
      gpt("0.8M", "nanoGPT's Shakespeare model for a CPU", 4, 4, 128, {64, 12, 12}, 0, "1e-3"),
      gpt("10M", "nanoGPT's Shakespeare model for a GPU", 6, 6, 384, {256, 64, 8}, 0, "1e-3"),
      gpt("124M", "GPT-2 small (Radford et al. 2019)", 12, 12, 768, {1024, 512, 4}, gpt2_tokens,
          "6e-4"),
      gpt("350M", "GPT-2 medium (Radford et al. 2019)", 24, 16, 1024, {1024, 512, 4}, gpt2_tokens,
          "3e-4"),
      gpt("760M", gpt3, 24, 16, 1536, {2048, 256, 2}, gpt2_tokens, "2.5e-4"),
      gpt("1.3B", gpt3, 24, 16, 2048, {2048, 512, 1}, gpt2_tokens, "2e-4"),
      gpt("2.7B", gpt3, 32, 32, 2560, {2048, 512, 1}, gpt2_tokens, "1.6e-4"),
      gpt("6.7B", gpt3, 32, 32, 4096, {2048, 1024, 1}, gpt2_tokens, "1.2e-4"),
      gpt("13B", gpt3, 40, 40, 5120, {2048, 1024, 1}, gpt2_tokens, "1e-4"),
      gpt("175B", gpt3, 96, 96, 12288, {2048, 1536, 1}, gpt2_tokens, "0.6e-4"),
      {"1.2M",
       "the network of configs/unet-quickstart.yaml, for a CPU",
       model::Kind::unet,
       {{"unet.channels", "32"},
        {"unet.channel_mult", "[1, 2, 2]"},
        {"unet.num_res_blocks", "1"},
        {"unet.attention_resolutions", "[8]"},
        {"unet.norm_groups", "8"},
        {"diffusion.average_decay", "0.995"},
        {"data.format", "pictures"},
        {"data.path", "data/shapes-plain/train.bin"},
        {"train.global_batch_size", "16"},
        {"optimizer.lr", "1e-3"},
        {"optimizer.weight_decay", "0"}}},
      {"52.5M",
       "the network for CIFAR-10 of Nichol, Dhariwal 2021",
       model::Kind::unet,
       {{"unet.channels", "128"},
        {"unet.num_res_blocks", "3"},
        {"unet.dropout", "0.3"},
        {"unet.learn_sigma", "true"},
        {"diffusion.steps", "4000"},
        {"data.format", "pictures"},
        {"data.path", "data/cifar-10-batches-bin"},
        {"data.flip", "true"},
        {"train.global_batch_size", "128"},
        {"optimizer.lr", "1e-4"},
        {"optimizer.weight_decay", "0"}}},
  };
  return table;
}

/// `file` names the run, as it does where it is loaded.
Config config_of(const Size& size, const std::string& file, std::vector<std::string>& chosen) {
  std::vector<std::string> sets;
  if (size.kind != model::Kind::gpt) {
    chosen.emplace_back("model.kind");
    sets.push_back("model.kind=" + kind_word(size.kind));
  }
  for (const auto& [key, value] : size.settings) {
    chosen.emplace_back(key);
    sets.push_back(format("{}={}", key, value));
  }
  return load(std::array{file}, sets, [](const std::string&) { return std::string("run:\n"); });
}

const Size& size_of(std::string_view name) {
  const auto size = std::ranges::find(sizes(), name, &Size::name);
  if (size == sizes().end())
    throw UserError(ExitCode::bad_config, format("there is no size '{}'; choose one of {}", name,
                                                 join(template_sizes(model::Kind::gpt), ", ")));
  return *size;
}

/// Words in comment lines of at most 100 columns.
std::string comment(const std::string& indent, std::string_view words) {
  constexpr std::size_t most_columns = 100;
  std::string text, line = indent + "#";
  for (const std::string& word : split(words, ' ')) {
    if (line.size() + 1 + word.size() > most_columns) {
      text += line + "\n";
      line = indent + "#";
    }
    line += " " + word;
  }
  return text + line + "\n";
}

/// Meaning and cost stand above a key, type and default after it.
std::string key_lines(const Key& key, Config& config, bool is_chosen) {
  const std::string indent = indent_of(key.path);
  std::string text = comment(indent, key.meaning);
  if (!key.cost.empty()) text += comment(indent, "Cost: " + key.cost);
  const bool follows = !key.derived_words.empty() && !is_chosen;
  const std::string unit = key.unit.empty() ? "" : format(" ({})", key.unit);
  return text + format("{}{}{}: {}  # {}{}; default: {}\n", indent, follows ? "# " : "",
                       leaf_of(key.path), value_text(key, config), type_words(key), unit,
                       default_words(key));
}

}  // namespace

std::vector<std::string> template_sizes(model::Kind kind) {
  std::vector<std::string> names;
  for (const Size& size : sizes())
    if (size.kind == kind) names.emplace_back(size.name);
  return names;
}

std::int64_t template_vocabulary(std::string_view name) {
  return size_of(name).vocabulary;
}

std::string template_yaml(std::string_view name, std::string_view file) {
  const Size& size = size_of(name);
  std::vector<std::string> chosen;
  Config config = config_of(size, std::string(file), chosen);
  std::string text =
      comment("", format("A {} of {} parameters. Sizes: {}.",
                         size.kind == model::Kind::gpt ? "GPT" : "U-Net", name, size.source));
  text += "#\n";
  text += format("#   fourfold train {}\n", file);
  text += "#\n";
  text += comment("",
                  "Begin with data.path. A line that begins with '# ' and a key shows what "
                  "follows from other keys; remove the '# ' to fix another value.");
  std::string_view before;
  for (const Key& key : keys()) {
    if (!applies(key, config)) continue;
    for (const std::string& line : opening_lines(key.path, before)) text += line + "\n";
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), key.path) != chosen.end();
    text += key_lines(key, config, is_chosen);
    before = key.path;
  }
  return text;
}

}  // namespace fourfold::config
