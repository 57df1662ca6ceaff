#include "config/json_schema.h"

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>
#include <vector>

#include "base/format.h"
#include "base/json.h"
#include "base/yaml.h"
#include "config/number.h"
#include "config/schema.h"
#include "config/sources.h"

namespace fourfold::config {
namespace {

// YAML readers differ in what is a number: 2k is text for all, 1e-4 and 1_000 for some.
const char* const integer_text = "[+-]?[0-9][0-9_]*(\\.[0-9]*)?([eE][+-]?[0-9]+)?[kMB]?";
const char* const number_text = "[+-]?[0-9_]*\\.?[0-9]+([eE][+-]?[0-9]+)?";

/// As YAML reads it: digits alone are a number.
Json word(const std::string& name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? Json(number) : Json(name);
}

Json words(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push(word(name));
  return list;
}

void set_bound(Json& type, const char* name, double bound) {
  if (!std::isfinite(bound)) return;
  const bool is_whole = bound == std::floor(bound) && std::abs(bound) < 1e15;
  type.set(name, is_whole ? Json(static_cast<std::int64_t>(bound)) : Json(bound));
}

void set_bounds(Json& type, const Bounds& bounds) {
  set_bound(type, bounds.least_excluded ? "exclusiveMinimum" : "minimum", bounds.least);
  set_bound(type, bounds.most_excluded ? "exclusiveMaximum" : "maximum", bounds.most);
}

/// What JSON Schema says of a key's type.
struct TypeOf {
  const Key& key;

  Json operator()(const Place<bool>&) const { return Json::object().set("type", "boolean"); }
  Json operator()(const Place<int>&) const { return integer(""); }
  Json operator()(const Place<std::int64_t>&) const { return integer(""); }
  Json operator()(const Place<std::uint64_t>&) const { return integer(""); }
  Json operator()(const Place<std::optional<std::int64_t>>&) const { return integer("auto|"); }
  Json operator()(const Place<double>&) const { return number(); }
  Json operator()(const Place<std::string>&) const {
    return Json::object().set("type", words({"string", "number", "boolean"}));
  }
  Json operator()(const Choice& choice) const {
    return Json::object().set("enum", words(choice.names));
  }
  Json operator()(const Pair&) const { return list(number(), 2); }
  Json operator()(const Permutation& permutation) const {
    return list(Json::object().set("enum", words(permutation.names)), permutation.names.size())
        .set("uniqueItems", true);
  }
  Json operator()(const Place<plan::Checkpointing>&) const {
    return Json::object()
        .set("type", "string")
        .set("pattern", "^(none|selective|full|auto|every [1-9][0-9_]*[kMB]?)$");
  }
  Json operator()(const Place<Blend>&) const {
    Json weight = number();
    weight.set("exclusiveMinimum", 0);
    Json part = Json::object().set("type", "object").set("additionalProperties", false);
    part.set("properties", Json::object()
                               .set("path", Json::object().set("type", "string"))
                               .set("weight", std::move(weight)));
    part.set("required", words({"path", "weight"}));
    return Json::object().set("type", "array").set("items", std::move(part));
  }
  Json operator()(const Place<pipeline::WeightDelay>&) const {
    return Json::object()
        .set("type", words({"integer", "string"}))
        .set("pattern", "^(none|auto|[0-9]+)$")
        .set("minimum", 0);
  }
  Json operator()(const Place<Grids>&) const {
    Json axes = Json::object();
    for (const char* axis : {"x", "y", "z", "data"}) axes.set(axis, integer(""));
    Json grid = Json::object().set("type", "object").set("additionalProperties", false);
    grid.set("properties", std::move(axes));
    return Json::object().set("type", "array").set("items", std::move(grid));
  }
  Json operator()(const Place<Pins>&) const {
    return Json::object()
        .set("type", "object")
        .set("additionalProperties", Json::object().set("type", "string"));
  }
  Json operator()(const Integers& integers) const {
    Json item = integer(integers.zero.empty() ? "" : integers.zero + "|");
    return Json::object()
        .set("type", "array")
        .set("items", std::move(item))
        .set("maxItems", integers.most_items);
  }
  Json operator()(const Place<std::vector<double>>&) const {
    return Json::object().set("type", "array").set("items", number()).set("minItems", 1);
  }
  Json operator()(const Place<data::BadPictures>&) const {
    return Json::object().set("type", "string").set("pattern", "^(stop|skip:[0-9]+)$");
  }
  Json operator()(const Amount& amount) const {
    std::string other;
    for (const std::string& word : {amount.zero, amount.open})
      if (!word.empty()) other += word + "|";
    if (!amount.is_size) return integer(other);
    return Json::object()
        .set("type", words({"integer", "string"}))
        .set("pattern", format("^({}[0-9]+([kKmMgG][iI]?)?[bB]?)$", other));
  }

 private:
  Json integer(const std::string& other) const {
    Json type = Json::object();
    type.set("type", words({"integer", "string"}));
    type.set("pattern", format("^({}{})$", other, integer_text));
    set_bounds(type, key.bounds);
    return type;
  }
  Json number() const {
    Json type = Json::object();
    type.set("type", words({"number", "string"}));
    type.set("pattern", format("^({})$", number_text));
    set_bounds(type, key.bounds);
    return type;
  }
  static Json list(Json item, std::size_t size) {
    Json type = Json::object().set("type", "array");
    type.set("items", std::move(item));
    return type.set("minItems", size).set("maxItems", size);
  }
};

std::string description_of(const Key& key) {
  std::string text = key.meaning;
  if (!key.cost.empty()) text += " Cost: " + key.cost;
  if (!key.unit.empty()) text += format(" Unit: {}.", key.unit);
  return text + format(" Default: {}.", default_words(key));
}

Json section_type(std::string_view section) {
  Json properties = Json::object();
  if (section.empty())
    properties.set(
        std::string(extends_key),
        Json::object()
            .set("type", "string")
            .set("description", "The file that this one changes, seen from this file's folder."));
  for (const std::string& inner : sections())
    if (section_of(inner) == section)
      properties.set(std::string(leaf_of(inner)), section_type(inner));
  for (const Key& key : keys()) {
    if (section_of(key.path) != section) continue;
    Json type = std::visit(TypeOf{key}, key.field);
    properties.set(std::string(leaf_of(key.path)),
                   std::move(type.set("description", description_of(key))));
  }
  // An empty section reads as null.
  Json type = Json::object();
  const auto other = word_of_section(section);
  type.set("type", other ? words({"object", "null", "string"}) : words({"object", "null"}));
  if (other) type.set("pattern", format("^{}$", *other));
  type.set("additionalProperties", false);
  return type.set("properties", std::move(properties));
}

/// Objects with a member a line; all else on one line.
void write_indented(const Json& json, std::size_t indent, std::string& text) {
  if (json.kind() != Json::Kind::object || json.members().empty()) {
    text += json.dump();
    return;
  }
  text += "{";
  bool is_first = true;
  for (const Json::Member& member : json.members()) {
    text += is_first ? "\n" : ",\n";
    is_first = false;
    text += std::string(indent + 2, ' ') + Json(member.key).dump() + ": ";
    write_indented(member.value, indent + 2, text);
  }
  text += "\n" + std::string(indent, ' ') + "}";
}

}  // namespace

std::string json_schema() {
  Json root = Json::object();
  root.set("$schema", "http://json-schema.org/draft-07/schema#");
  root.set("title", "Fourfold configuration");
  const Json top = section_type("");
  for (const Json::Member& member : top.members()) root.set(member.key, member.value);
  std::string text;
  write_indented(root, 0, text);
  return text + "\n";
}

}  // namespace fourfold::config
