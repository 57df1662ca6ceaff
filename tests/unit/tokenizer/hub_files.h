// The files of the folder tokenizers/hub, read and changed.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/pattern.h"
#include "tokenizer/tokenizer_json.h"
#include "unit/tokenizer/tokenizer_files.h"

namespace fourfold::tokenizer {

/// The files of the folder.
inline constexpr const char* hub_kinds[] = {"gpt2",   "smollm",  "llama3",    "qwen", "gpt4o",
                                            "llama2", "mistral", "metaspace", "gemma"};
inline std::string hub_file_text(const std::string& kind) {
  return read_file(tokenizer_file("hub/" + kind + ".json"));
}

struct HubText {
  std::string text;
  std::vector<std::int32_t> ids;
  bool comes_back = false;  // the library decodes the ids to the text
};

/// Made by make_hub.py, which says with what.
inline std::vector<HubText> hub_texts(const std::string& kind) {
  const std::string file = tokenizer_file("hub/vectors.json");
  const Json json = parse_json(read_file(file), file);
  std::vector<HubText> result;
  for (const Json& row : json.find(kind)->items()) {
    HubText one{row.find("text")->as_string(), {}, row.find("back")->as_bool()};
    for (const Json& id : row.find("ids")->items())
      one.ids.push_back(static_cast<std::int32_t>(id.as_integer()));
    result.push_back(std::move(one));
  }
  return result;
}

inline bool has_expressions() {
  return std::holds_alternative<std::unique_ptr<Pattern>>(make_pattern("a"));
}

/// Null, with the reason checked, where the build lacks a library that this kind needs.
inline std::unique_ptr<Tokenizer> load_hub_file(const std::string& kind) {
  ReadTokenizer read = read_tokenizer_json(hub_file_text(kind), "tokenizer.json");
  if (read.tokenizer) return std::move(read.tokenizer);
  const bool lacks = !has_expressions() || !why_no_normal_form().empty();
  EXPECT_TRUE(lacks) << kind << ": " << read.reason;
  EXPECT_NE(read.reason.find("this build has no"), std::string::npos) << read.reason;
  return nullptr;
}

/// The file with another value at a place: a list of keys.
inline Json with(const Json& file, const std::vector<std::string>& keys, Json value,
                 std::size_t at = 0) {
  if (at == keys.size()) return value;
  const Json* inner = file.find(keys[at]);
  Json changed = file;
  return changed.set(
      keys[at], with(inner != nullptr ? *inner : Json::object(), keys, std::move(value), at + 1));
}

/// A tokenizer of bytes whose words an expression finds.
inline Json with_expression(const std::string& expression) {
  const Json split = Json::object()
                         .set("type", "Split")
                         .set("pattern", Json::object().set("Regex", expression))
                         .set("behavior", "Isolated")
                         .set("invert", false);
  const Json bytes = Json::object()
                         .set("type", "ByteLevel")
                         .set("add_prefix_space", false)
                         .set("use_regex", false);
  return with(
      parse_json(hub_file_text("gpt2"), "gpt2.json"), {"pre_tokenizer"},
      Json::object().set("type", "Sequence").set("pretokenizers", Json::array({split, bytes})));
}

}  // namespace fourfold::tokenizer
