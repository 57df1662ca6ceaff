// tokenizer.json of Hugging Face (the library tokenizers 0.20 to 0.23), written and read for the
// kinds of tokenizers that there are here. A kind that computes other ids there or here does not
// travel, and the reason is said.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer.h"

namespace fourfold::data {

struct WrittenTokenizer {
  std::string text;                // of tokenizer.json; empty: `reason`
  std::string reason;              // why there is none
  std::vector<std::string> notes;  // what is different there
  /// The tokens with a role there: "eos_token" and the like.
  std::vector<std::pair<std::string, std::string>> roles;
};

/// `description` is that of Tokenizer::to_text.
WrittenTokenizer write_tokenizer_json(const std::string& description);

struct ReadTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;  // null: `reason`
  std::string reason;                    // why there is none here
  std::vector<std::string> notes;        // what is different here
};

/// `source` names the file in messages. Errors: UserError(bad_data) for what is no JSON, or
/// contradicts itself.
ReadTokenizer read_tokenizer_json(std::string_view text, std::string_view source);

}  // namespace fourfold::data
