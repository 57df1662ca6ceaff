#include "interop/hub_family.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "interop/gpt2.h"
#include "interop/llama.h"

namespace fourfold::interop {
namespace {

using checkpoint::ElementType;

/// All families, in the order in which they are looked for.
const std::array<const HubFamily*, 2>& hub_families() {
  static const std::array<const HubFamily*, 2> all = {&gpt2_family(), &llama_family()};
  return all;
}

struct Found {
  const HubFamily* family = nullptr;
  std::string_view model_type;
};

/// Finds a family by model_type; where the file says none, by the class that reads it.
Found find_family(const Json* type, const Json* classes) {
  const auto names = [&](const HubClass& of) {
    if (type != nullptr) return *type == Json(of.model_type);
    if (classes == nullptr || classes->kind() != Json::Kind::array) return false;
    return std::ranges::any_of(classes->items(), [&](const Json& item) {
      return item.kind() == Json::Kind::string && item.as_string() == of.name;
    });
  };
  for (const HubFamily* family : hub_families())
    for (const HubClass& of : family->classes)
      if (names(of)) return {family, of.model_type};
  return {};
}

/// "\"gpt2\", \"llama\" or \"mistral\"".
std::string known_types() {
  std::vector<std::string> words;
  for (const HubFamily* family : hub_families())
    for (const HubClass& of : family->classes)
      if (const std::string word = json_quoted(of.model_type); std::ranges::count(words, word) == 0)
        words.push_back(word);
  const std::string last = words.back();
  words.pop_back();
  return words.empty() ? last : join(words, ", ") + " or " + last;
}

}  // namespace

const HubFamily* hub_family_of(const model::Spec& spec) {
  for (const HubFamily* family : hub_families())
    if (family->is_of(spec)) return family;
  return nullptr;
}

std::string_view without_prefix(const HubFamily& family, std::string_view name) {
  return name.starts_with(family.prefix) ? name.substr(family.prefix.size()) : name;
}

bool has_tied_head(const model::Spec& spec) {
  return std::visit(
      [](const auto& of) {
        if constexpr (requires { of.tied_head; })
          return of.tied_head;
        else
          return false;
      },
      spec);
}

bool has_added_biases(const model::Spec& spec) {
  const HubFamily* family = hub_family_of(spec);
  return family != nullptr &&
         std::ranges::any_of(family->tensors(spec), [](const HubTensor& t) { return t.is_zero; });
}

model::Spec untied(model::Spec spec) {
  std::visit(
      [](auto& of) {
        if constexpr (requires { of.tied_head; }) of.tied_head = false;
      },
      spec);
  return spec;
}

HubModel parse_hub_config(std::string_view text, std::string_view file) {
  const Json json = parse_json(text, file, ExitCode::no_checkpoint);
  if (json.kind() != Json::Kind::object)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: expected an object with the keys of a model; copy config.json of "
                           "the model again",
                           file));
  ConfigReader reader(json, file);
  const Json* type = reader.find("model_type");
  const Found found = find_family(type, reader.find("architectures"));
  if (found.family == nullptr)
    reader.refuse("model_type", type == nullptr ? Json() : *type,
                  format("expected {}; no other models can be imported", known_types()));
  reader.finish();
  HubModel model = {found.family->parse(reader, found.model_type), found.family};
  if (const Json* quantized = reader.find("quantization_config"))
    reader.refuse("quantization_config", *quantized,
                  "expected plain weights; save the model in float32, float16 or bfloat16");
  reader.finish();
  return model;
}

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

Json first_keys(const HubClass& of) {
  Json json = Json::object();
  json.set("architectures", Json::array({Json(of.name)})).set("model_type", of.model_type);
  return json;
}

void set_last_keys(Json& json, const HubExtras& extras) {
  const auto id_or_null = [](std::int64_t id) { return id < 0 ? Json() : Json(id); };
  json.set("bos_token_id", id_or_null(extras.begin_of_text))
      .set("eos_token_id", id_or_null(extras.end_of_text));
  json.set("torch_dtype", torch_name(extras.dtype)).set("dtype", torch_name(extras.dtype));
}

}  // namespace fourfold::interop
