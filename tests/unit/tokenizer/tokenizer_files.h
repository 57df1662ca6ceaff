// The tokenizers of the folder tokenizers/ and what other programs make of texts with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

inline std::string tokenizer_file(const std::string& name) {
  return std::string(FOURFOLD_SOURCE_DIR) + "/tests/unit/tokenizer/tokenizers/" + name;
}

inline std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& name) {
  return load_tokenizer(TokenizerKind::sentencepiece, tokenizer_file(name + ".model"));
}
inline std::unique_ptr<Tokenizer> load_small_gpt2() {
  return load_tokenizer(TokenizerKind::gpt2, tokenizer_file(""));
}

struct EncodedText {
  std::string text;
  std::vector<std::int32_t> ids;
};

/// Made by make_vectors.py, which says with what.
inline std::vector<EncodedText> encoded_texts(const std::string& tokenizer) {
  const std::string file = tokenizer_file("vectors.json");
  const Json json = parse_json(read_file(file), file);
  std::vector<EncodedText> result;
  for (const Json& row : json.find(tokenizer)->items()) {
    EncodedText one{row.find("text")->as_string(), {}};
    for (const Json& id : row.find("ids")->items())
      one.ids.push_back(static_cast<std::int32_t>(id.as_integer()));
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace fourfold::tokenizer
