#include "interop/llama.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold::interop {
namespace {

using model::AttentionBias;
using model::LlamaSpec;
using model::RopeKind;

constexpr std::string_view llama_prefix = "model.";

/// The words of hidden_act for the one activation of these models.
const std::vector<Json>& activations() {
  static const std::vector<std::string> words = split("silu swish", ' ');
  static const std::vector<Json> all(words.begin(), words.end());
  return all;
}

/// A class of transformers: what it has, and what it takes a key to be that is left out.
struct LlamaClass {
  HubClass words;
  std::string_view base;  // the class without a head
  bool has_attention_bias = false, has_mlp_bias = false, has_head_norm = false;
  bool has_qkv_bias = false;                                  // always
  std::int64_t vocabulary, ffn, groups, head_dim, positions;  // 0: it follows from others
  std::int64_t reach = 0;                                     // tokens that a token sees; 0: all
};

constexpr std::array llama_classes = {
    LlamaClass{.words = {"llama", "LlamaForCausalLM"},
               .base = "LlamaModel",
               .has_attention_bias = true,
               .has_mlp_bias = true,
               .vocabulary = 32000,
               .ffn = 11008,
               .groups = 0,
               .head_dim = 0,
               .positions = 2048},
    LlamaClass{.words = {"mistral", "MistralForCausalLM"},
               .base = "MistralModel",
               .vocabulary = 32000,
               .ffn = 14336,
               .groups = 8,
               .head_dim = 0,
               .positions = 131072,
               .reach = 4096},
    LlamaClass{.words = {"qwen2", "Qwen2ForCausalLM"},
               .base = "Qwen2Model",
               .has_qkv_bias = true,
               .vocabulary = 151936,
               .ffn = 22016,
               .groups = 32,
               .head_dim = 0,
               .positions = 32768},
    LlamaClass{.words = {"qwen3", "Qwen3ForCausalLM"},
               .base = "Qwen3Model",
               .has_attention_bias = true,
               .has_head_norm = true,
               .vocabulary = 151936,
               .ffn = 22016,
               .groups = 32,
               .head_dim = 128,
               .positions = 32768},
};

const LlamaClass& class_named(std::string_view model_type) {
  return *std::ranges::find(llama_classes, model_type,
                            [](const LlamaClass& of) { return of.words.model_type; });
}

/// The class that an exported model is of.
const LlamaClass& class_for(const LlamaSpec& spec) {
  const bool is_qwen2 = spec.attention_bias == AttentionBias::qkv && !spec.mlp_bias;
  return class_named(spec.head_norm ? "qwen3" : is_qwen2 ? "qwen2" : "llama");
}

HubClass checked_class(const model::Spec& of) {
  const auto& spec = std::get<LlamaSpec>(of);
  const LlamaClass& result = class_for(spec);
  if (spec.mlp_bias && !result.has_mlp_bias)
    throw UserError(ExitCode::bad_config,
                    "model.head_norm = true and model.mlp_bias = true: no class of transformers "
                    "has both; export with --format safetensors");
  if (spec.hidden_size % spec.num_attention_heads != 0 && result.words.model_type == "llama")
    throw UserError(ExitCode::bad_config,
                    format("model.hidden_size = {} is not divisible by model.num_attention_heads = "
                           "{}, as LlamaForCausalLM demands; export with --format safetensors",
                           spec.hidden_size, spec.num_attention_heads));
  return result.words;
}

enum class Bias { none, zero, own };

/// Some indices of one dim of what a linear layer gives; count 0: all.
struct Cut {
  std::string theirs;
  std::size_t dim = 0;
  std::int64_t first = 0, count = 0;
};

class LlamaList {
 public:
  void add_gain(const std::string& ours, const std::string& theirs, std::int64_t width) {
    tensors.push_back({.ours = ours + ".gain",
                       .our_shape = {width},
                       .theirs = theirs + ".weight",
                       .their_shape = {width}});
  }
  /// `in` and `out` are the dims of our weight, which several of theirs may share.
  void add_linear(const std::string& ours, const Shape& in, const Shape& out,
                  const std::vector<Cut>& cuts, Bias bias) {
    Shape weight = in;
    for (const std::int64_t size : out) weight.push_back(size);
    const auto columns = [&](const Cut& cut) {
      return cut.count == 0 ? out.elements() : out.elements() / out[cut.dim] * cut.count;
    };
    for (const Cut& cut : cuts)
      tensors.push_back({.ours = ours + ".weight",
                         .our_shape = weight,
                         .theirs = cut.theirs + ".weight",
                         .their_shape = {columns(cut), in.elements()},
                         .transposed_rows = in.rank(),
                         .dim = in.rank() + cut.dim,
                         .first = cut.first,
                         .count = cut.count});
    if (bias == Bias::none) return;
    for (const Cut& cut : cuts)
      tensors.push_back({.ours = ours + ".bias",
                         .our_shape = out,
                         .theirs = cut.theirs + ".bias",
                         .their_shape = {columns(cut)},
                         .dim = cut.dim,
                         .first = cut.first,
                         .count = cut.count,
                         .is_zero = bias == Bias::zero});
  }

  std::vector<HubTensor> tensors;
};

/// The layer `ours`, `theirs` beginning its names there.
void add_layer(LlamaList& list, const LlamaSpec& spec, const std::string& ours,
               const std::string& theirs) {
  const std::int64_t hidden = spec.hidden_size, groups = spec.num_key_value_heads,
                     heads = spec.heads_of_group(), width = spec.head_dim,
                     ffn = spec.ffn_hidden_size;
  const bool has_biases = spec.attention_bias != AttentionBias::none;
  const Bias in = has_biases ? Bias::own : Bias::none;
  Bias out = spec.attention_bias == AttentionBias::all ? Bias::own : Bias::none;
  if (has_biases && out == Bias::none && !class_for(spec).has_qkv_bias) out = Bias::zero;
  const Bias mlp = spec.mlp_bias ? Bias::own : Bias::none;
  const std::string attention = theirs + "self_attn.";
  list.add_gain(ours + "ln1", theirs + "input_layernorm", hidden);
  list.add_linear(ours + "attn.qkv", {hidden}, {groups, heads + 2, width},
                  {{attention + "q_proj", 1, 0, heads},
                   {attention + "k_proj", 1, heads, 1},
                   {attention + "v_proj", 1, heads + 1, 1}},
                  in);
  if (spec.head_norm) {
    list.add_gain(ours + "attn.q_norm", attention + "q_norm", width);
    list.add_gain(ours + "attn.k_norm", attention + "k_norm", width);
  }
  list.add_linear(ours + "attn.out", {groups, heads, width}, {hidden}, {{attention + "o_proj"}},
                  out);
  list.add_gain(ours + "ln2", theirs + "post_attention_layernorm", hidden);
  list.add_linear(ours + "mlp.up", {hidden}, {2, ffn},
                  {{theirs + "mlp.gate_proj", 0, 0, 1}, {theirs + "mlp.up_proj", 0, 1, 1}}, mlp);
  list.add_linear(ours + "mlp.down", {ffn}, {hidden}, {{theirs + "mlp.down_proj"}}, mlp);
}

std::vector<HubTensor> llama_tensors(const model::Spec& of) {
  const auto& spec = std::get<LlamaSpec>(of);
  const Shape table = {spec.vocab_size, spec.hidden_size};
  const std::string prefix(llama_prefix);
  LlamaList list;
  list.tensors.push_back({.ours = "wte.weight",
                          .our_shape = table,
                          .theirs = prefix + "embed_tokens.weight",
                          .their_shape = table});
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer)
    add_layer(list, spec, format("blocks.{}.", layer), format("{}layers.{}.", prefix, layer));
  list.add_gain("ln_f", prefix + "norm", spec.hidden_size);
  if (!spec.tied_head)
    list.tensors.push_back({.ours = "head.weight",
                            .our_shape = {spec.hidden_size, spec.vocab_size},
                            .theirs = std::string(hub_head),
                            .their_shape = table,
                            .transposed_rows = 1});
  return std::move(list.tensors);
}

Json llama_config(const model::Spec& of, const HubExtras& extras) {
  const auto& spec = std::get<LlamaSpec>(of);
  const LlamaClass& written = class_for(spec);
  Json json = first_keys(checked_class(of));
  json.set("vocab_size", spec.vocab_size)
      .set("hidden_size", spec.hidden_size)
      .set("intermediate_size", spec.ffn_hidden_size)
      .set("num_hidden_layers", spec.num_layers)
      .set("num_attention_heads", spec.num_attention_heads)
      .set("num_key_value_heads", spec.num_key_value_heads)
      .set("head_dim", spec.head_dim)
      .set("hidden_act", activations()[0])
      .set("max_position_embeddings", spec.max_position_embeddings)
      .set("rms_norm_eps", spec.layer_norm_epsilon)
      .set("initializer_range", spec.init_stddev)
      .set("attention_dropout", 0.0)
      .set("tie_word_embeddings", spec.tied_head)
      .set("use_cache", true);
  if (written.has_attention_bias)
    json.set("attention_bias", spec.attention_bias != AttentionBias::none);
  if (written.has_mlp_bias) json.set("mlp_bias", spec.mlp_bias);
  if (written.words.model_type != "llama") json.set("use_sliding_window", false);
  write_rope(json, spec.rope);
  set_last_keys(json, extras);
  return json;
}

/// A window that sees all positions binds nothing.
void check_reach(ConfigReader& reader, const LlamaClass& of, const LlamaSpec& spec) {
  const bool is_asked = of.reach > 0 || reader.boolean("use_sliding_window", false);
  std::int64_t seen = 0;
  if (reader.find("sliding_window") != nullptr)
    seen = is_asked ? reader.integer("sliding_window", "", INT64_MAX, INT64_MAX) : 0;
  else if (!reader.has("sliding_window"))
    seen = is_asked ? std::max<std::int64_t>(of.reach, 4096) : 0;
  if (seen == 0 || seen >= spec.max_position_embeddings) return;
  // The first layers of a Qwen see all.
  if (of.reach == 0 && reader.find("layer_types") == nullptr &&
      reader.number("max_window_layers", 28, true, most_layers + 1) >=
          static_cast<double>(spec.num_layers))
    return;
  if (const Json* types = reader.find("layer_types");
      types != nullptr && types->kind() == Json::Kind::array &&
      std::ranges::all_of(types->items(),
                          [](const Json& type) { return type == Json("full_attention"); }))
    return;
  reader.refuse("sliding_window", Json(seen),
                format("expected null, or at least max_position_embeddings = {}; tokens see all "
                       "before them here, and this model would compute something else",
                       spec.max_position_embeddings));
}

/// Every group has as many heads as each other one.
void check_groups(ConfigReader& reader, const LlamaSpec& spec) {
  const std::int64_t heads = spec.num_attention_heads;
  if (heads % spec.num_key_value_heads == 0) return;
  std::vector<std::string> divisors;
  for (std::int64_t groups = 1; groups <= heads; ++groups)
    if (heads % groups == 0) divisors.push_back(std::to_string(groups));
  reader.refuse("num_key_value_heads", Json(spec.num_key_value_heads),
                format("does not divide num_attention_heads = {}; expected one of {}", heads,
                       join(divisors, ", ")));
}

void check_llama_function(ConfigReader& reader) {
  if (const Json* activation = reader.find("hidden_act"))
    if (std::ranges::count(activations(), *activation) == 0)
      reader.refuse("hidden_act", *activation,
                    "expected \"silu\", the only one that such a model computes here");
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"})
    if (const Json* experts = reader.find(key)) {
      if (experts->kind() == Json::Kind::integer && experts->as_integer() == 0) continue;
      reader.refuse(key, *experts, "expected no experts; there are none here");
    }
}

ImportedModel parse_llama(ConfigReader& reader, std::string_view model_type) {
  const LlamaClass& of = class_named(model_type);
  LlamaSpec spec;
  std::vector<std::string> notes;
  spec.vocab_size = reader.integer("vocab_size", "", of.vocabulary, most_vocabulary);
  spec.max_position_embeddings =
      reader.integer("max_position_embeddings", "", of.positions, most_tokens);
  spec.hidden_size = reader.integer("hidden_size", "", 4096, most_width);
  spec.num_layers = reader.integer("num_hidden_layers", "", 32, most_layers);
  spec.num_attention_heads = reader.integer("num_attention_heads", "", 32, most_width);
  const std::int64_t heads = spec.num_attention_heads;
  const bool is_null = reader.has("num_key_value_heads");  // then there are as many as heads
  spec.num_key_value_heads = reader.integer(
      "num_key_value_heads", "", of.groups == 0 || is_null ? heads : of.groups, most_width);
  const std::int64_t share = std::max<std::int64_t>(1, spec.hidden_size / heads);
  spec.head_dim =
      reader.integer("head_dim", "", of.head_dim == 0 ? share : of.head_dim, most_width);
  spec.ffn_hidden_size = reader.integer("intermediate_size", "", of.ffn, 4 * most_width);
  spec.layer_norm_epsilon = reader.number("rms_norm_eps", 1e-6, false, 1);
  spec.init_stddev = reader.number("initializer_range", 0.02, false, 100);
  spec.tied_head = reader.boolean("tie_word_embeddings", false);
  const bool has_biases = of.has_attention_bias && reader.boolean("attention_bias", false);
  spec.attention_bias = of.has_qkv_bias ? AttentionBias::qkv
                        : has_biases    ? AttentionBias::all
                                        : AttentionBias::none;
  spec.mlp_bias = of.has_mlp_bias && reader.boolean("mlp_bias", false);
  spec.head_norm = of.has_head_norm;
  spec.rope = read_rope(reader, spec.max_position_embeddings);
  check_llama_function(reader);
  check_reach(reader, of, spec);
  check_groups(reader, spec);
  if (spec.head_dim % 2 != 0)
    reader.refuse("head_dim", Json(spec.head_dim),
                  "is odd; rotary positions turn pairs of a head's elements");
  if (heads * spec.head_dim > 4 * most_width)
    reader.refuse(
        "head_dim", Json(spec.head_dim),
        format("{} heads of this width are wider than {} elements", heads, 4 * most_width));
  if (const double rate = reader.number("attention_dropout", 0, true, 1); rate > 0)
    notes.push_back(
        format("attention_dropout = {} is of training alone, and further training "
               "here has none",
               rate));
  return {spec, std::move(notes)};
}

/// Frequencies that old files hold, which follow from config.json.
bool is_frequencies(std::string_view bare) {
  return bare.starts_with("layers.") && bare.ends_with(".self_attn.rotary_emb.inv_freq");
}

std::vector<HubClass> all_classes() {
  std::vector<HubClass> all;
  for (const LlamaClass& of : llama_classes) {
    all.push_back(of.words);
    all.push_back({of.words.model_type, of.base});
  }
  return all;
}

}  // namespace

const HubFamily& llama_family() {
  static const HubFamily family = {
      .title = "Llama",
      .classes = all_classes(),
      .prefix = llama_prefix,
      .parse = parse_llama,
      .is_of = [](const model::Spec& spec) { return std::holds_alternative<LlamaSpec>(spec); },
      .class_of = checked_class,
      .config = llama_config,
      .tensors = llama_tensors,
      .is_left_aside = is_frequencies};
  return family;
}

}  // namespace fourfold::interop
