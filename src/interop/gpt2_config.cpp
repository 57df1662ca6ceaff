#include "interop/gpt2_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold::interop {
namespace {

using checkpoint::ElementType;

std::string_view torch_name(ElementType type) {
  switch (type.kind()) {
    case ElementType::Kind::f16:
      return "float16";
    case ElementType::Kind::bf16:
      return "bfloat16";
    case ElementType::Kind::f32:
      return "float32";
    case ElementType::Kind::f64:
      return "float64";
    default:
      fail_internal("tensors of a model have a floating type");
  }
}

/// Reads one key after the other and collects what is wrong.
class Reader {
 public:
  Reader(const Json& json, std::string_view file) : json_(json), file_(file) {}

  /// Below either name; the first one counts. Null where both are absent or null.
  const Json* find(std::string_view key, std::string_view alias = "") const {
    for (const std::string_view name : {key, alias}) {
      const Json* value = name.empty() ? nullptr : json_.find(name);
      if (value != nullptr && value->kind() != Json::Kind::null) return value;
    }
    return nullptr;
  }

  std::int64_t integer(std::string_view key, std::string_view alias, std::int64_t fallback,
                       std::int64_t most) {
    const Json* value = find(key, alias);
    if (value == nullptr) return fallback;
    if (value->kind() == Json::Kind::integer && value->as_integer() >= 1 &&
        value->as_integer() <= most)
      return value->as_integer();
    refuse(key, *value, format("expected an integer from 1 to {}", most));
    return fallback;
  }

  double number(std::string_view key, double fallback, bool may_be_zero, double below) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    const bool is_number =
        value->kind() == Json::Kind::integer || value->kind() == Json::Kind::number;
    const double got = is_number ? value->as_double() : -1;
    if (is_number && got < below && (got > 0 || (may_be_zero && got == 0))) return got;
    refuse(key, *value,
           format("expected a number {} 0 and below {}", may_be_zero ? "from" : "above", below));
    return fallback;
  }

  bool boolean(std::string_view key, bool fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->kind() == Json::Kind::boolean) return value->as_bool();
    refuse(key, *value, "expected true or false");
    return fallback;
  }

  /// A key that must have this value, for the reason given.
  void demand(std::string_view key, bool wanted, bool fallback, std::string_view why) {
    const bool got = boolean(key, fallback);
    if (got != wanted)
      problems_.push_back(
          format("{} = {}: {}; a model that was trained so cannot be imported, and another "
                 "value in this file would make it compute something else",
                 key, got, why));
  }

  void refuse(std::string_view key, const Json& value, std::string_view what) {
    constexpr std::size_t most = 60;
    std::string shown = value.dump();
    if (shown.size() > most) shown = shown.substr(0, most) + "...";
    problems_.push_back(format("{} = {}: {}", key, shown, what));
  }

  void finish() const {
    if (problems_.empty()) return;
    const std::string separator = format("\n{}: ", file_);
    throw UserError(ExitCode::no_checkpoint, format("{}: {}", file_, join(problems_, separator)));
  }

 private:
  const Json& json_;
  std::string_view file_;
  std::vector<std::string> problems_;
};

void check_family(Reader& reader) {
  const Json* type = reader.find("model_type");
  if (type == nullptr) {
    const Json* classes = reader.find("architectures");
    const bool is_gpt2 =
        classes != nullptr && classes->kind() == Json::Kind::array &&
        std::any_of(classes->items().begin(), classes->items().end(), [](const Json& item) {
          return item == Json("GPT2LMHeadModel") || item == Json("GPT2Model");
        });
    if (is_gpt2) return;
    reader.refuse("model_type", Json(), "expected \"gpt2\"; only GPT-2 models can be imported");
  } else if (!(*type == Json("gpt2"))) {
    reader.refuse("model_type", *type, "expected \"gpt2\"; only GPT-2 models can be imported");
  }
}

void check_function(Reader& reader) {
  if (const Json* activation = reader.find("activation_function"))
    if (!(*activation == Json("gelu_new")) && !(*activation == Json("gelu_pytorch_tanh")))
      reader.refuse("activation_function", *activation,
                    "expected \"gelu_new\", GELU with tanh, the only one that is computed here");
  reader.demand("scale_attn_weights", true, true,
                "attention scores are divided by the root of the head's width here");
  reader.demand("scale_attn_by_inverse_layer_idx", false, false,
                "attention scores are not divided by the layer's number here");
  reader.demand("add_cross_attention", false, false, "there is no cross-attention here");
  if (const Json* pruned = reader.find("pruned_heads"))
    if (pruned->kind() != Json::Kind::object || !pruned->members().empty())
      reader.refuse("pruned_heads", *pruned, "expected no pruned heads");
  if (const Json* quantized = reader.find("quantization_config"))
    reader.refuse("quantization_config", *quantized,
                  "expected plain weights; save the model in float32, float16 or bfloat16");
}

/// They stand for one number here.
double read_dropout(Reader& reader, std::vector<std::string>& notes) {
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

}  // namespace

Json gpt2_config(const model::GptSpec& spec, const Gpt2Extras& extras) {
  Json json = Json::object();
  json.set("architectures", Json::array({"GPT2LMHeadModel"})).set("model_type", "gpt2");
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
  const auto id_or_null = [](std::int64_t id) { return id < 0 ? Json() : Json(id); };
  json.set("bos_token_id", id_or_null(extras.begin_of_text))
      .set("eos_token_id", id_or_null(extras.end_of_text));
  json.set("torch_dtype", torch_name(extras.dtype)).set("dtype", torch_name(extras.dtype));
  return json;
}

ImportedGpt2 parse_gpt2_config(std::string_view text, std::string_view file) {
  const Json json = parse_json(text, file, ExitCode::no_checkpoint);
  if (json.kind() != Json::Kind::object)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: expected an object with the keys of a GPT-2; copy config.json of "
                           "the model again",
                           file));
  // Bounds of the keys of model.* here.
  constexpr std::int64_t most_width = 1'000'000, most_layers = 1'000, most_tokens = 1'000'000,
                         most_vocabulary = 10'000'000;
  Reader reader(json, file);
  ImportedGpt2 result;
  model::GptSpec& spec = result.spec;
  check_family(reader);
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
  spec.dropout = read_dropout(reader, result.notes);
  check_function(reader);
  if (spec.hidden_size % spec.num_attention_heads != 0)
    reader.refuse("n_head", Json(spec.num_attention_heads),
                  format("does not divide n_embd = {}", spec.hidden_size));
  reader.finish();
  return result;
}

}  // namespace fourfold::interop
