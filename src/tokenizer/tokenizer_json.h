// tokenizer.json of Hugging Face (the library tokenizers 0.20 to 0.23), written for the kinds of
// tokenizers that there are here, and read: as the kind that this program has written, else as a
// tokenizer of the hub (hub_tokenizer.h). A kind that computes other ids there or here does not
// travel, and the reason is said.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/hub_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

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

/// `source` names the file in messages; `roles_of` is asked where the tokenizer is one of the hub.
/// Errors: UserError(bad_data) for what is no JSON, or contradicts itself.
ReadTokenizer read_tokenizer_json(std::string_view text, std::string_view source,
                                  const RolesOf& roles_of = no_roles);

}  // namespace fourfold::tokenizer
