#include "interop/gpt2.h"

#include <algorithm>

#include "base/format.h"

namespace fourfold::interop {
namespace {

constexpr HubClass gpt2_class = {"gpt2", "GPT2LMHeadModel"};
constexpr std::string_view gpt2_prefix = "transformer.";

class Gpt2List {
 public:
  explicit Gpt2List(bool has_biases) : has_biases_(has_biases) {}

  void add(const std::string& ours, const std::string& theirs, const Shape& our_shape,
           const Shape& their_shape) {
    tensors.push_back({.ours = ours,
                       .our_shape = our_shape,
                       .theirs = std::string(gpt2_prefix) + theirs,
                       .their_shape = their_shape});
  }
  void add_norm(const std::string& ours, const std::string& theirs, std::int64_t width) {
    add(ours + ".gain", theirs + ".weight", {width}, {width});
    add_bias(ours, theirs, {width});
  }
  /// `in` and `out` are the dims of our weight; theirs has one of each.
  void add_linear(const std::string& ours, const std::string& theirs, const Shape& in,
                  const Shape& out) {
    Shape weight = in;
    for (const std::int64_t size : out) weight.push_back(size);
    add(ours + ".weight", theirs + ".weight", weight, {in.elements(), out.elements()});
    add_bias(ours, theirs, out);
  }

  std::vector<HubTensor> tensors;

 private:
  void add_bias(const std::string& ours, const std::string& theirs, const Shape& shape) {
    add(ours + ".bias", theirs + ".bias", shape, {shape.elements()});
    tensors.back().is_zero = !has_biases_;
  }

  bool has_biases_;
};

std::vector<HubTensor> gpt2_tensors(const model::Spec& of) {
  const auto& spec = std::get<model::GptSpec>(of);
  const std::int64_t hidden = spec.hidden_size, heads = spec.num_attention_heads,
                     width = hidden / heads, ffn = spec.ffn_hidden_size;
  Gpt2List list(spec.bias);
  const auto same = [&](const std::string& name, const Shape& shape) {
    list.add(name, name, shape, shape);
  };
  same("wte.weight", {spec.vocab_size, hidden});
  same("wpe.weight", {spec.max_position_embeddings, hidden});
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const std::string ours = format("blocks.{}.", layer), theirs = format("h.{}.", layer);
    list.add_norm(ours + "ln1", theirs + "ln_1", hidden);
    list.add_linear(ours + "attn.qkv", theirs + "attn.c_attn", {hidden}, {3, heads, width});
    list.add_linear(ours + "attn.out", theirs + "attn.c_proj", {heads, width}, {hidden});
    list.add_norm(ours + "ln2", theirs + "ln_2", hidden);
    list.add_linear(ours + "mlp.up", theirs + "mlp.c_fc", {hidden}, {ffn});
    list.add_linear(ours + "mlp.down", theirs + "mlp.c_proj", {ffn}, {hidden});
  }
  list.add_norm("ln_f", "ln_f", hidden);
  if (!spec.tied_head)
    list.tensors.push_back({.ours = "head.weight",
                            .our_shape = {hidden, spec.vocab_size},
                            .theirs = std::string(hub_head),
                            .their_shape = {spec.vocab_size, hidden},
                            .transposed_rows = 1});
  return std::move(list.tensors);
}

/// The causal masks that old files hold.
bool is_mask(std::string_view bare) {
  if (!bare.starts_with("h.")) return false;
  const std::string_view rest = bare.substr(2);
  const std::size_t dot = rest.find('.');
  const std::string_view layer = rest.substr(0, dot);
  const bool is_number = !layer.empty() && std::all_of(layer.begin(), layer.end(),
                                                       [](char c) { return c >= '0' && c <= '9'; });
  if (dot == rest.npos || !is_number) return false;
  const std::string_view what = rest.substr(dot);
  return what == ".attn.bias" || what == ".attn.masked_bias";
}

void check_function(ConfigReader& reader) {
  if (const Json* activation = reader.find("activation_function"))
    if (!(*activation == Json("gelu_new")) && !(*activation == Json("gelu_pytorch_tanh")))
      reader.refuse("activation_function", *activation,
                    "expected \"gelu_new\", GELU with tanh, the only one that a GPT-2 computes "
                    "here");
  reader.demand("scale_attn_weights", true, true,
                "attention scores are divided by the root of the head's width here");
  reader.demand("scale_attn_by_inverse_layer_idx", false, false,
                "attention scores are not divided by the layer's number here");
  reader.demand("add_cross_attention", false, false, "there is no cross-attention here");
  if (const Json* pruned = reader.find("pruned_heads"))
    if (pruned->kind() != Json::Kind::object || !pruned->members().empty())
      reader.refuse("pruned_heads", *pruned, "expected no pruned heads");
}

/// They stand for one number here.
double read_dropout(ConfigReader& reader, std::vector<std::string>& notes) {
  const double embedding = reader.number("embd_pdrop", 0.1, true, 1),
               attention = reader.number("attn_pdrop", 0.1, true, 1),
               residual = reader.number("resid_pdrop", 0.1, true, 1);
  if (embedding != residual || attention != residual)
    notes.push_back(
        format("embd_pdrop = {}, attn_pdrop = {} and resid_pdrop = {} differ; "
               "model.dropout = {} stands for all of them in further training",
               embedding, attention, residual, residual));
  return residual;
}

Json gpt2_config(const model::Spec& of, const HubExtras& extras) {
  const auto& spec = std::get<model::GptSpec>(of);
  Json json = first_keys(gpt2_class);
  json.set("vocab_size", spec.vocab_size)
      .set("n_positions", spec.max_position_embeddings)
      .set("n_embd", spec.hidden_size)
      .set("n_layer", spec.num_layers)
      .set("n_head", spec.num_attention_heads)
      .set("n_inner",
           spec.ffn_hidden_size == 4 * spec.hidden_size ? Json() : Json(spec.ffn_hidden_size))
      .set("activation_function", "gelu_new")
      .set("layer_norm_epsilon", spec.layer_norm_epsilon)
      .set("resid_pdrop", spec.dropout)
      .set("embd_pdrop", spec.dropout)
      .set("attn_pdrop", spec.dropout)
      .set("initializer_range", spec.init_stddev)
      .set("scale_attn_weights", true)
      .set("scale_attn_by_inverse_layer_idx", false)
      .set("reorder_and_upcast_attn", false)
      .set("tie_word_embeddings", spec.tied_head)
      .set("use_cache", true);
  set_last_keys(json, extras);
  return json;
}

ImportedModel parse_gpt2(ConfigReader& reader, std::string_view) {
  model::GptSpec spec;
  std::vector<std::string> notes;
  spec.vocab_size = reader.integer("vocab_size", "", 50257, most_vocabulary);
  spec.max_position_embeddings =
      reader.integer("n_positions", "max_position_embeddings", 1024, most_tokens);
  spec.hidden_size = reader.integer("n_embd", "hidden_size", 768, most_width);
  spec.num_layers = reader.integer("n_layer", "num_hidden_layers", 12, most_layers);
  spec.num_attention_heads = reader.integer("n_head", "num_attention_heads", 12, most_width);
  spec.ffn_hidden_size = reader.integer("n_inner", "", 4 * spec.hidden_size, 4 * most_width);
  spec.layer_norm_epsilon = reader.number("layer_norm_epsilon", 1e-5, false, 1);
  spec.init_stddev = reader.number("initializer_range", 0.02, false, 100);
  spec.tied_head = reader.boolean("tie_word_embeddings", true);
  spec.bias = true;
  spec.dropout = read_dropout(reader, notes);
  check_function(reader);
  if (spec.hidden_size % spec.num_attention_heads != 0)
    reader.refuse("n_head", Json(spec.num_attention_heads),
                  format("does not divide n_embd = {}", spec.hidden_size));
  return {spec, std::move(notes)};
}

}  // namespace

const HubFamily& gpt2_family() {
  static const HubFamily family = {
      .title = "GPT-2",
      .classes = {gpt2_class, {"gpt2", "GPT2Model"}},
      .prefix = gpt2_prefix,
      .parse = parse_gpt2,
      .is_of = [](const model::Spec& spec) { return std::holds_alternative<model::GptSpec>(spec); },
      .class_of = [](const model::Spec&) { return gpt2_class; },
      .config = gpt2_config,
      .tensors = gpt2_tensors,
      .is_left_aside = is_mask};
  return family;
}

}  // namespace fourfold::interop
