#include "config/template.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

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
  std::int64_t layers, heads, hidden, seq_length, global_batch, micro_batch, vocabulary;
  std::string_view lr;
};

// The last two columns of sizes are chosen here: half a million tokens a step and more, as GPT-3
// grows, and few samples at once.
constexpr std::string_view gpt3 = "GPT-3 (Brown et al. 2020), table 2.1";
constexpr std::int64_t gpt2_tokens = 50257;  // of GPT-2's byte-pair vocabulary
constexpr std::array<Size, 10> sizes = {{
    {"0.8M", "nanoGPT's Shakespeare model for a CPU", 4, 4, 128, 64, 12, 12, 0, "1e-3"},
    {"10M", "nanoGPT's Shakespeare model for a GPU", 6, 6, 384, 256, 64, 8, 0, "1e-3"},
    {"124M", "GPT-2 small (Radford et al. 2019)", 12, 12, 768, 1024, 512, 4, gpt2_tokens, "6e-4"},
    {"350M", "GPT-2 medium (Radford et al. 2019)", 24, 16, 1024, 1024, 512, 4, gpt2_tokens, "3e-4"},
    {"760M", gpt3, 24, 16, 1536, 2048, 256, 2, gpt2_tokens, "2.5e-4"},
    {"1.3B", gpt3, 24, 16, 2048, 2048, 512, 1, gpt2_tokens, "2e-4"},
    {"2.7B", gpt3, 32, 32, 2560, 2048, 512, 1, gpt2_tokens, "1.6e-4"},
    {"6.7B", gpt3, 32, 32, 4096, 2048, 1024, 1, gpt2_tokens, "1.2e-4"},
    {"13B", gpt3, 40, 40, 5120, 2048, 1024, 1, gpt2_tokens, "1e-4"},
    {"175B", gpt3, 96, 96, 12288, 2048, 1536, 1, gpt2_tokens, "0.6e-4"},
}};

/// `file` names the run, as it does where it is loaded.
Config config_of(const Size& size, const std::string& file, std::vector<std::string>& chosen) {
  std::vector<std::string> sets;
  const auto set = [&](const char* key, const auto& value) {
    chosen.emplace_back(key);
    sets.push_back(format("{}={}", key, value));
  };
  set("model.num_layers", size.layers);
  set("model.num_attention_heads", size.heads);
  set("model.hidden_size", size.hidden);
  if (size.vocabulary > 0) set("model.vocab_size", size.vocabulary);
  set("data.path", "data/bible.txt");
  set("data.seq_length", size.seq_length);
  set("train.global_batch_size", size.global_batch);
  if (size.micro_batch < size.global_batch) set("train.micro_batch_size", size.micro_batch);
  set("optimizer.lr", size.lr);
  return load(std::array{file}, sets, [](const std::string&) { return std::string("run:\n"); });
}

const Size& size_of(std::string_view name) {
  const auto* size = std::ranges::find(sizes, name, &Size::name);
  if (size == sizes.end())
    throw UserError(ExitCode::bad_config, format("there is no size '{}'; choose one of {}", name,
                                                 join(template_sizes(), ", ")));
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

std::vector<std::string> template_sizes() {
  std::vector<std::string> names;
  for (const Size& size : sizes) names.emplace_back(size.name);
  return names;
}

std::int64_t template_vocabulary(std::string_view name) {
  return size_of(name).vocabulary;
}

std::string template_yaml(std::string_view name, std::string_view file) {
  const Size& size = size_of(name);
  std::vector<std::string> chosen;
  Config config = config_of(size, std::string(file), chosen);
  std::string text = comment("", format("A GPT of {} parameters. Sizes: {}.", name, size.source));
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
