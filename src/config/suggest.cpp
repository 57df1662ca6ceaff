#include "config/suggest.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "config/schema.h"
#include "config/sources.h"

namespace fourfold::config {
namespace {

/// Compared without capitals and with '_' for '-'.
bool same_name(std::string_view a, std::string_view b) {
  const auto folded = [](char letter) {
    if (letter >= 'A' && letter <= 'Z') return static_cast<char>(letter - 'A' + 'a');
    return letter == '-' ? '_' : letter;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return folded(x) == folded(y); });
}

struct Absent {
  std::string_view name, hint;
};

/// Things that other tools configure and that no key here does.
constexpr std::string_view accumulation =
                               "it follows: train.global_batch_size / (train.micro_batch_size x "
                               "parallel.data x parallel.tensor.z)",
                           no_padding =
                               "the vocabulary is padded to the grid by itself; leave it out",
                           no_such_axis =
                               "there is no such axis; parallel.tensor.x, y, z and parallel.data "
                               "make the grid",
                           tokens =
                               "train.steps counts steps of train.global_batch_size x "
                               "data.seq_length tokens",
                           files_extend =
                               "it stands at the top of a file, outside all sections: "
                               "'extends: base.yaml'";
constexpr std::string_view
    positions =
        "a model of kind gpt learns its positions, one of kind llama turns heads by them: set "
        "model.kind",
    groups = "model.num_key_value_heads of a model of kind llama says how many groups there are",
    norms = "a model of kind gpt has layer norms, one of kind llama RMS norms: set model.kind",
    no_experts = "there are no experts here; leave it out",
    no_adapters = "there is no low-rank adaptation here: all weights are trained",
    tiled = "attention never stores its scores, whatever is set; leave it out",
    compiled = "every step is compiled; leave it out",
    no_averages = "there are no averages of weights here; leave it out",
    no_scaling = "there is no fp16 here, and bf16 needs no loss scaling; leave it out",
    no_service =
        "metrics.jsonl in the run's folder has every step, and log.tensorboard writes "
        "event files",
    saves = "checkpoint.interval_steps and checkpoint.interval_minutes say when; leave it out",
    activations =
        "the MLP of a model of kind gpt has GELU, that of kind llama SwiGLU: set model.kind";
constexpr auto absent = std::to_array<Absent>({
    {"rotary_percent", positions},
    {"use_rotary_position_embeddings", positions},
    {"position_embedding_type", positions},
    {"alibi", positions},

    {"group_query_attention", groups},
    {"normalization", norms},
    {"norm_type", norms},
    {"rms_norm", norms},
    {"num_experts", no_experts},
    {"moe", no_experts},
    {"lora", no_adapters},
    {"peft", no_adapters},
    {"lora_r", no_adapters},
    {"lora_alpha", no_adapters},
    {"flash_attention", tiled},
    {"use_flash_attn", tiled},
    {"attn_implementation", tiled},
    {"compile", compiled},
    {"torch_compile", compiled},
    {"ema", no_averages},
    {"ema_decay", no_averages},
    {"backend", "ranks meet as threads or by MPI, whichever starts them; leave it out"},
    {"fp16", no_scaling},
    {"loss_scale", no_scaling},
    {"initial_loss_scale", no_scaling},
    {"gradient_accumulation_steps", accumulation},
    {"grad_accumulation", accumulation},
    {"grad_accumulation_steps", accumulation},
    {"batch_accumulation_per_replica", accumulation},
    {"make_vocab_size_divisible_by", no_padding},
    {"vocab_pad_multiple", no_padding},
    {"pad_vocab_size_to_multiple_of", no_padding},
    {"context_parallel_size", no_such_axis},
    {"context_parallel_degree", no_such_axis},
    {"expert_model_parallel_size", no_such_axis},
    {"tokens", tokens},
    {"max_tokens", tokens},
    {"train_tokens", tokens},
    {"master",
     "weights and moments are fp32, or fp64 where precision.compute is fp64; leave it out"},
    {"tensorboard", no_service},
    {"wandb", no_service},
    {"wandb_log", no_service},
    {"wandb_project", no_service},
    {"always_save_checkpoint", saves},
    {"save_strategy", saves},
    {"eval_only", "`fourfold eval` judges the model of a run; leave it out"},
    {"eval_strategy", "eval.interval_steps says when; leave it out"},
    {"logging_strategy", "log.interval says when; leave it out"},
    {"per_device_eval_batch_size", "an evaluation has the micro-batches of training; leave it out"},
    {"load", "the same command goes on by itself; run.init_from begins with the weights of a run"},
    {"data_cache_path", "`fourfold data tokenize` keeps tokens as a file, which data.path names"},
    {"evaluation_strategy", "eval.interval_steps says when; leave it out"},
    {"num_train_epochs", tokens},
    {"num_epochs", tokens},
    {"epochs", tokens},
    {"max_epochs", tokens},
    {"train_samples", tokens},
    {"warmup_ratio", "lr_schedule.warmup_steps counts steps"},
    {"swiglu", activations},
    {"activation", activations},
    {"activation_function", activations},
    {"disable_bias_linear", "model.bias: false has no biases"},
    {"scale_attn_weights", "attention scores are always divided by the root of the head's width"},
    {"num_workers", "data are read beside the steps; leave it out"},
    {"dataloader_num_workers", "data are read beside the steps; leave it out"},
    {"extends", files_extend},
    {"base", files_extend},
    {"_base_", files_extend},
    {"include", files_extend},
});

/// A value that other tools write, and the one here that means the same; empty: none does, and why.
struct OtherValue {
  std::string_view key, theirs, ours, why = {};
};
constexpr std::string_view no_fp16 = "there is no fp16 here; bf16 is as small";
constexpr auto other_values = std::to_array<OtherValue>({
    {"run.device", "gpu", "cuda"},
    {"run.device", "nvidia", "cuda"},
    {"run.device", "cuda:0", "cuda"},
    {"run.device", "mps", "", "there are no kernels for this device; cpu and cuda have some"},
    {"run.device", "rocm", "", "there are no kernels for this device; cpu and cuda have some"},
    {"run.device", "tpu", "", "there are no kernels for this device; cpu and cuda have some"},
    {"precision.residual", "float32", "fp32"},
    {"precision.residual", "f32", "fp32"},
    {"precision.residual", "float", "fp32"},
    {"precision.residual", "bfloat16", "bf16"},
    {"precision.compute", "float32", "fp32"},
    {"precision.compute", "f32", "fp32"},
    {"precision.compute", "float", "fp32"},
    {"precision.compute", "single", "fp32"},
    {"precision.compute", "32", "fp32"},
    {"precision.compute", "float64", "fp64"},
    {"precision.compute", "f64", "fp64"},
    {"precision.compute", "double", "fp64"},
    {"precision.compute", "bfloat16", "bf16"},
    {"precision.compute", "fp16", "", no_fp16},
    {"precision.compute", "float16", "", no_fp16},
    {"precision.compute", "half", "", no_fp16},
    {"data.tokenizer", "character", "char"},
    {"data.tokenizer", "bytes", "byte"},
    {"data.tokenizer", "spm", "sentencepiece"},
    {"data.tokenizer", "tiktoken", "gpt2"},
    {"data.tokenizer", "hf", "hub"},
    {"data.tokenizer", "huggingface", "hub"},
    {"data.format", "txt", "text"},
    {"data.format", "indexed", "megatron"},
    {"lr_schedule.kind", "wsd", "warmup_stable_decay"},
    {"lr_schedule.kind", "constant_with_warmup", "constant"},
    {"lr_schedule.kind", "none", "constant"},
});

/// The digits of a word: 16 and 32 are no misspellings of each other.
std::string digits_of(std::string_view word) {
  std::string digits;
  std::copy_if(word.begin(), word.end(), std::back_inserter(digits),
               [](char letter) { return letter >= '0' && letter <= '9'; });
  return digits;
}

Suggestion did_you_mean(std::string_view path) {
  return {format("did you mean '{}'?", path), std::string(path)};
}

std::optional<Suggestion> from_other_tools(std::string_view path) {
  for (const auto name : {path, leaf_of(path)})
    for (const Key& key : keys())
      for (const std::string& other : key.elsewhere)
        if (same_name(name, other)) return did_you_mean(key.path);
  for (const auto name : {path.substr(0, path.find('.')), leaf_of(path)})
    for (const Absent& entry : absent)
      if (same_name(name, entry.name)) return Suggestion{std::string(entry.hint), ""};
  return std::nullopt;
}

/// A setting of any model comes before those of one kind.
std::optional<Suggestion> same_leaf_elsewhere(std::string_view leaf) {
  for (const bool of_any : {true, false})
    for (const Key& key : keys())
      if (key.kinds.empty() == of_any && same_name(leaf_of(key.path), leaf))
        return did_you_mean(key.path);
  for (const std::string& section : sections())
    if (same_name(leaf_of(section), leaf)) return did_you_mean(section);
  return std::nullopt;
}

/// What may stand in a section: leaves; at the top: sections and top-level keys.
std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  for (const std::string& inner : sections())
    if (section_of(inner) == section) names.emplace_back(leaf_of(inner));
  for (const Key& key : keys())
    if (section_of(key.path) == section) names.emplace_back(leaf_of(key.path));
  if (section.empty()) names.emplace_back(extends_key);
  return names;
}

std::optional<Suggestion> near_miss(std::string_view path) {
  const std::string_view section = section_of(path);
  if (const auto leaf = nearest(leaf_of(path), names_in(section)))
    return did_you_mean(section.empty() ? *leaf : format("{}.{}", section, *leaf));
  std::vector<std::string> leaves, paths;
  for (const Key& key : keys()) {
    leaves.emplace_back(leaf_of(key.path));
    paths.push_back(key.path);
  }
  // What two paths share of their sections makes no misspelling of their names.
  const std::string leaf(leaf_of(path));
  if (leaf.size() <= 2) return std::nullopt;
  if (const auto meant = nearest(path, paths))
    if (nearest(leaf, std::array{std::string(leaf_of(*meant))})) return did_you_mean(*meant);
  if (const auto meant = nearest(leaf, leaves)) return same_leaf_elsewhere(*meant);
  return std::nullopt;
}

}  // namespace

std::string names_in_words(std::string_view section) {
  return format("{} has: {}", section.empty() ? "the top level" : format("section '{}'", section),
                join(names_in(section), ", "));
}

std::string suggest_value(const Key& key, std::string_view text,
                          const std::vector<std::string>& names) {
  for (const OtherValue& other : other_values)
    if (key.path == other.key && same_name(text, other.theirs))
      return other.ours.empty() ? std::string(other.why) : format("did you mean '{}'?", other.ours);
  const auto meant = nearest(text, names);
  if (!meant || text.empty() || digits_of(text) != digits_of(*meant) ||
      !same_name(text.substr(0, 1), meant->substr(0, 1)))
    return {};
  return format("did you mean '{}'?", *meant);
}

Suggestion suggest(std::string_view path) {
  if (const auto found = from_other_tools(path)) return *found;
  if (const auto found = same_leaf_elsewhere(leaf_of(path))) return *found;
  if (const auto found = near_miss(path)) return *found;
  const auto all = sections();
  const bool known = std::find(all.begin(), all.end(), section_of(path)) != all.end();
  return {names_in_words(known ? section_of(path) : std::string_view()), ""};
}

}  // namespace fourfold::config
