// The family llama: its keys, those that it shares with a GPT among them, the relations between
// them, its sizes to start from.
#include <array>

#include "base/text.h"
#include "config/family.h"
#include "config/rules_words.h"
#include "config/schema_fields.h"

namespace fourfold::config {
namespace {

using model::AttentionBias;
using model::LlamaSpec;
using model::RopeKind;
using model::RopeSpec;

template <class T>
Place<T> at_rope(T RopeSpec::* member) {
  return [member](Config& config) -> T& { return config.llama.rope.*member; };
}

/// 8/3 of the width, as many parameters as a GPT's 4 with its two matrices in place of three.
std::int64_t usual_ffn(std::int64_t hidden) {
  constexpr std::int64_t factor = 64;
  return (8 * hidden / 3 + factor - 1) / factor * factor;
}

/// A key of a GPT, of which schema_gpt.cpp says the rest.
Key shared(std::string path, Field field) {
  Key key;
  key.path = std::move(path);
  key.field = std::move(field);
  return key;
}
template <class T>
Key shared(std::string path, T LlamaSpec::* member) {
  return shared(std::move(path), Field(at(&Config::llama, member)));
}
/// Likewise, of one that follows from others.
template <class T>
Key shared(std::string path, T LlamaSpec::* member, std::string words, T (*follows)(Config&)) {
  Key key = shared(std::move(path), member);
  key.derived_words = std::move(words);
  key.derive = [member, follows](Config& config) { config.llama.*member = follows(config); };
  return key;
}

std::vector<Key> shared_keys() {
  return {
      shared("model.num_layers", &LlamaSpec::num_layers),
      shared("model.num_attention_heads", &LlamaSpec::num_attention_heads),
      shared("model.hidden_size", &LlamaSpec::hidden_size),
      shared<std::int64_t>("model.ffn_hidden_size", &LlamaSpec::ffn_hidden_size,
                           "8/3 of it, rounded up to a multiple of 64",
                           [](Config& c) { return usual_ffn(c.llama.hidden_size); }),
      shared<std::int64_t>("model.max_position_embeddings", &LlamaSpec::max_position_embeddings,
                           "data.seq_length", [](Config& c) { return c.data.seq_length; }),
      shared("model.vocab_size", &LlamaSpec::vocab_size),
      shared("model.tied_head", &LlamaSpec::tied_head),
      shared("model.layer_norm_epsilon", &LlamaSpec::layer_norm_epsilon),
      shared("model.init_stddev", &LlamaSpec::init_stddev),
  };
}

std::vector<Key> own_keys() {
  return {
      {.path = "model.num_key_value_heads",
       .meaning = "Groups of attention heads; the heads of a group share one key and one value.",
       .field = at(&Config::llama, &LlamaSpec::num_key_value_heads),
       .fallback = "",
       .bounds = between(1, most_width),
       .cost = "The key/value cache, and the part of attention's first product that makes keys and "
               "values, grow in proportion.",
       .example = "3",
       .elsewhere = {"num_query_groups", "n_kv_heads", "num_kv_heads", "kv_heads", "n_head_kv",
                     "multi_query_group_num", "n_kv_head"},
       .derived_words = "model.num_attention_heads",
       .derive =
           [](Config& config) {
             config.llama.num_key_value_heads = config.llama.num_attention_heads;
           }},
      {.path = "model.head_dim",
       .meaning = "Width of an attention head, an even number.",
       .field = at(&Config::llama, &LlamaSpec::head_dim),
       .fallback = "",
       .bounds = between(2, most_width),
       .cost = "Attention's parameters and arithmetic grow in proportion.",
       .example = "128",
       .elsewhere = {"kv_channels", "head_width", "head_size", "d_head"},
       .derived_words = "model.hidden_size / model.num_attention_heads",
       .derive =
           [](Config& config) {
             LlamaSpec& spec = config.llama;
             spec.head_dim = std::max<std::int64_t>(2, spec.hidden_size / spec.num_attention_heads);
           }},
      {.path = "model.attention_bias",
       .meaning = "Which linear layers of attention have biases: none; qkv, those that make "
                  "queries, keys and values, as in Qwen2; all, also the one after it.",
       .field = choice<AttentionBias>(
           at(&Config::llama, &LlamaSpec::attention_bias), {"none", "qkv", "all"},
           {AttentionBias::none, AttentionBias::qkv, AttentionBias::all}),
       .fallback = "none",
       .cost = "qkv, all: few parameters more, and their gradients.",
       .example = "qkv",
       .elsewhere = {"qkv_bias"}},
      {.path = "model.mlp_bias",
       .meaning = "Whether the linear layers of the MLP have biases.",
       .field = at(&Config::llama, &LlamaSpec::mlp_bias),
       .fallback = "false",
       .cost = "true: few parameters more, and their gradients.",
       .example = "true"},
      {.path = "model.head_norm",
       .meaning = "Whether each query and each key is normed before it is turned, as in Qwen3.",
       .field = at(&Config::llama, &LlamaSpec::head_norm),
       .fallback = "false",
       .cost = "true: a pass over queries and keys in every block, and one back.",
       .example = "true",
       .elsewhere = {"qk_norm", "use_qk_norm", "qk_layernorm"}},
  };
}

std::vector<Key> rope_keys() {
  return {
      {.path = "model.rope.theta",
       .meaning = "The base of the frequencies by which queries and keys are turned.",
       .field = at_rope(&RopeSpec::theta),
       .fallback = "10000",
       .bounds = above(1),
       .example = "500000",
       .elsewhere = {"rope_theta", "rotary_base", "rope_base", "rotary_emb_base"}},
      {.path = "model.rope.kind",
       .meaning = "How the frequencies are changed for texts longer than those of the training "
                  "before: default, not at all; linear; llama3; yarn.",
       .field =
           choice<RopeKind>(at_rope(&RopeSpec::kind), {"default", "linear", "llama3", "yarn"},
                            {RopeKind::plain, RopeKind::linear, RopeKind::llama3, RopeKind::yarn}),
       .fallback = "default",
       .example = "llama3",
       .elsewhere = {"rope_type", "rope_scaling_type", "rope_scaling"}},
      {.path = "model.rope.factor",
       .meaning = "By how many times texts may be longer; of linear, llama3 and yarn.",
       .field = at_rope(&RopeSpec::factor),
       .fallback = "1",
       .bounds = at_least(1),
       .example = "32",
       .elsewhere = {"rope_factor", "rope_scaling_factor", "seq_len_interpolation_factor"}},
      {.path = "model.rope.original_positions",
       .meaning = "Positions that the model was trained on before; of llama3 and yarn.",
       .field = at_rope(&RopeSpec::original_positions),
       .fallback = "",
       .bounds = between(1, most_tokens),
       .unit = "tokens",
       .example = "8192",
       .elsewhere = {"original_max_position_embeddings", "original_max_positions"},
       .derived_words = "model.max_position_embeddings",
       .derive =
           [](Config& config) {
             config.llama.rope.original_positions = config.llama.max_position_embeddings;
           }},
      {.path = "model.rope.low_freq_factor",
       .meaning = "Frequencies that turn less often within the original positions are divided by "
                  "the factor; of llama3.",
       .field = at_rope(&RopeSpec::low_freq_factor),
       .fallback = "1",
       .bounds = above(0),
       .example = "1"},
      {.path = "model.rope.high_freq_factor",
       .meaning = "Frequencies that turn more often within the original positions stay as they "
                  "are; of llama3.",
       .field = at_rope(&RopeSpec::high_freq_factor),
       .fallback = "4",
       .bounds = above(0),
       .example = "4"},
      {.path = "model.rope.beta_fast",
       .meaning =
           "Turns within the original positions from which on a frequency stays as it is; of "
           "yarn.",
       .field = at_rope(&RopeSpec::beta_fast),
       .fallback = "32",
       .bounds = above(0),
       .example = "32"},
      {.path = "model.rope.beta_slow",
       .meaning = "Turns within the original positions up to which a frequency is divided by the "
                  "factor; of yarn.",
       .field = at_rope(&RopeSpec::beta_slow),
       .fallback = "1",
       .bounds = above(0),
       .example = "1"},
      {.path = "model.rope.attention_factor",
       .meaning = "By which yarn multiplies queries and keys; 0: 0.1 ln(factor) + 1.",
       .field = at_rope(&RopeSpec::attention_factor),
       .fallback = "0",
       .bounds = at_least(0),
       .example = "1.2",
       .elsewhere = {"mscale"}},
      {.path = "model.rope.truncate",
       .meaning = "Whether the pairs between which yarn blends are whole numbers.",
       .field = at_rope(&RopeSpec::truncate),
       .fallback = "true",
       .example = "false"},
  };
}

std::vector<Key> llama_keys() {
  std::vector<Key> all;
  for (const auto& part : {shared_keys, own_keys, rope_keys})
    std::ranges::move(part(), std::back_inserter(all));
  return all;
}

Verdict groups_divide_heads(const Config& c) {
  return divides("model.num_attention_heads", c.llama.num_attention_heads,
                 "model.num_key_value_heads", c.llama.num_key_value_heads);
}

Verdict heads_have_pairs(const Config& c) {
  if (c.llama.head_dim % 2 == 0) return std::nullopt;
  return Finding{
      format("model.head_dim = {} is odd, and positions turn pairs of elements", c.llama.head_dim),
      format("set model.head_dim = {} or {}", c.llama.head_dim - 1, c.llama.head_dim + 1)};
}

/// Sizes of tensors then stay inside 64 bits.
Verdict heads_are_not_too_wide(const Config& c) {
  constexpr auto most = static_cast<std::int64_t>(4 * most_width);
  const std::int64_t heads = c.llama.num_attention_heads, width = c.llama.head_dim;
  if (heads * width <= most) return std::nullopt;
  return Finding{
      format("model.num_attention_heads = {} of model.head_dim = {} are {} elements wide", heads,
             width, heads * width),
      format("at most {} are possible: set model.head_dim to at most {}", most,
             most / heads / 2 * 2)};
}

Verdict columns_divide_stream(const Config& c) {
  return divides("model.hidden_size", c.llama.hidden_size, "parallel.tensor.y", c.plan.grid.y);
}

Verdict checkpoints_fit_llama(const Config& c) {
  return checkpoints_fit_layers(c.plan.checkpointing, c.llama.num_layers);
}

/// The word of model.rope.kind.
std::string word_of(RopeKind kind) {
  constexpr std::array words = {"default", "linear", "llama3", "yarn"};
  return words.at(static_cast<std::size_t>(kind));
}

/// A setting that the kind of rope does not look at, where it is not the one that is left out.
template <class T>
std::function<Verdict(const Config&)> read_by(std::string key, T RopeSpec::* member,
                                              std::vector<RopeKind> kinds) {
  return [=](const Config& c) -> Verdict {
    const RopeSpec& rope = c.llama.rope;
    if (std::ranges::count(kinds, rope.kind) > 0 || rope.*member == RopeSpec().*member)
      return std::nullopt;
    std::vector<std::string> words;
    for (const RopeKind kind : kinds) words.push_back(word_of(kind));
    const std::string all = join(words, " or ");
    return Finding{format("{} is of model.rope.kind = {}, but model.rope.kind = {}", key, all,
                          word_of(rope.kind)),
                   format("leave {} out, or set model.rope.kind = {}", key, all)};
  };
}

Verdict low_is_below_high(const Config& c) {
  const RopeSpec& rope = c.llama.rope;
  if (rope.kind != RopeKind::llama3 || rope.low_freq_factor < rope.high_freq_factor)
    return std::nullopt;
  return Finding{format("model.rope.low_freq_factor = {} is not below model.rope.high_freq_factor "
                        "= {}",
                        rope.low_freq_factor, rope.high_freq_factor),
                 "Llama 3 has 1 and 4"};
}

Verdict slow_is_below_fast(const Config& c) {
  const RopeSpec& rope = c.llama.rope;
  if (rope.kind != RopeKind::yarn || rope.beta_slow < rope.beta_fast) return std::nullopt;
  return Finding{format("model.rope.beta_slow = {} is not below model.rope.beta_fast = {}",
                        rope.beta_slow, rope.beta_fast),
                 "the usual ones are 1 and 32"};
}

std::vector<Rule> llama_rules() {
  const std::string kind = "model.rope.kind";
  std::vector<Rule> rules = {
      {{"model.num_attention_heads", "model.num_key_value_heads"}, groups_divide_heads},
      {{"model.head_dim"}, heads_have_pairs},
      {{"model.num_attention_heads", "model.head_dim"}, heads_are_not_too_wide},
      {{"model.hidden_size", "parallel.tensor.y"}, columns_divide_stream, true},
      {{"memory.activation_checkpointing", "model.num_layers"}, checkpoints_fit_llama},
      {{kind, "model.rope.low_freq_factor", "model.rope.high_freq_factor"}, low_is_below_high},
      {{kind, "model.rope.beta_slow", "model.rope.beta_fast"}, slow_is_below_fast}};
  const auto add = [&](const std::string& key, auto member, const std::vector<RopeKind>& kinds) {
    rules.push_back({{key, kind}, read_by(key, member, kinds)});
  };
  add("model.rope.factor", &RopeSpec::factor, {RopeKind::linear, RopeKind::llama3, RopeKind::yarn});
  add("model.rope.low_freq_factor", &RopeSpec::low_freq_factor, {RopeKind::llama3});
  add("model.rope.high_freq_factor", &RopeSpec::high_freq_factor, {RopeKind::llama3});
  add("model.rope.beta_fast", &RopeSpec::beta_fast, {RopeKind::yarn});
  add("model.rope.beta_slow", &RopeSpec::beta_slow, {RopeKind::yarn});
  add("model.rope.attention_factor", &RopeSpec::attention_factor, {RopeKind::yarn});
  add("model.rope.truncate", &RopeSpec::truncate, {RopeKind::yarn});
  return rules;
}

/// Rows of the first matrix of a layer's parts are the stream; so are the columns of the second.
std::string llama_size_key(const std::string& tensor, bool is_rows) {
  const bool is_second = tensor.ends_with(".down.weight") || tensor.ends_with(".out.weight");
  if (is_rows != is_second) return "model.hidden_size";
  if (tensor.find(".mlp.") != std::string::npos) return "model.ffn_hidden_size";
  return tensor.find(".attn.") != std::string::npos ? "model.num_key_value_heads"
                                                    : "model.hidden_size";
}

/// A size says these numbers; the other keys follow from them.
struct LlamaShape {
  std::int64_t layers, heads, groups, hidden, ffn, vocabulary;
};

TemplateSize llama_size(std::string_view name, std::string_view source, const LlamaShape& shape,
                        std::int64_t length, std::int64_t batch, std::int64_t micro,
                        std::vector<std::pair<const char*, std::string>> more) {
  const auto number = [](std::int64_t value) { return format("{}", value); };
  TemplateSize size{name, source, {}, shape.vocabulary};
  size.settings = {{"model.num_layers", number(shape.layers)},
                   {"model.num_attention_heads", number(shape.heads)},
                   {"model.num_key_value_heads", number(shape.groups)},
                   {"model.hidden_size", number(shape.hidden)},
                   {"model.ffn_hidden_size", number(shape.ffn)}};
  if (shape.vocabulary > 0)
    size.settings.emplace_back("model.vocab_size", number(shape.vocabulary));
  std::ranges::move(more, std::back_inserter(size.settings));
  size.settings.emplace_back("data.path", "data/bible.txt");
  size.settings.emplace_back("data.seq_length", number(length));
  size.settings.emplace_back("train.global_batch_size", number(batch));
  if (micro < batch) size.settings.emplace_back("train.micro_batch_size", number(micro));
  return size;
}

std::vector<TemplateSize> llama_sizes() {
  return {
      llama_size("1M", "small enough for a CPU", {4, 4, 2, 128, 384, 0}, 64, 12, 12,
                 {{"optimizer.lr", "1e-3"}}),
      llama_size("135M", "SmolLM2-135M (Hugging Face 2024)", {30, 9, 3, 576, 1536, 49152}, 2048,
                 512, 4, {{"model.rope.theta", "100000"}, {"optimizer.lr", "3e-3"}}),
      llama_size("0.6B", "Qwen3-0.6B (Qwen 2025)", {28, 16, 8, 1024, 3072, 151936}, 4096, 256, 1,
                 {{"model.head_dim", "128"},
                  {"model.head_norm", "true"},
                  {"model.layer_norm_epsilon", "1e-6"},
                  {"model.rope.theta", "1000000"},
                  {"optimizer.lr", "3e-4"}}),
      llama_size("1.2B", "Llama 3.2 1B (Meta 2024)", {16, 32, 8, 2048, 8192, 128256}, 4096, 256, 1,
                 {{"model.rope.theta", "500000"}, {"optimizer.lr", "3e-4"}}),
  };
}

}  // namespace

FamilySchema llama_schema() {
  return {.keys = llama_keys(),
          .rules = llama_rules(),
          .labels_key = "model.vocab_size",
          .length_key = "model.max_position_embeddings",
          .heads_key = "model.num_attention_heads",
          .size_key = llama_size_key,
          .sizes = llama_sizes(),
          .usual_size = "135M"};
}

}  // namespace fourfold::config
