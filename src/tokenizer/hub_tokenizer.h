// Tokenizers as the files of Hugging Face describe them, with the ids that its library gives:
// normalisation, added tokens, words by expressions, byte pair encoding. What such a file says:
// hub_file.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace fourfold::tokenizer {

/// What the files beside tokenizer.json say (special_tokens.h).
struct HubRoles {
  std::vector<std::int32_t> ends;     // each ends a text; the first stands between documents
  std::optional<std::int32_t> begin;  // of a text where nothing comes before it
};

/// Called with the texts of the tokenizer's tokens, by id.
using RolesOf = std::function<HubRoles(const std::vector<std::string>& texts)>;

inline HubRoles no_roles(const std::vector<std::string>& /*texts*/) {
  return {};
}

struct HubTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::string> notes;  // what is different here
};

/// `json`: the whole file, which export writes again. A text says why there is no such tokenizer
/// here. Errors: UserError(bad_data) with `source` and the part of the file, for what contradicts
/// itself.
std::variant<HubTokenizer, std::string> hub_tokenizer(const Json& json, const RolesOf& roles_of,
                                                      std::string_view source);

/// Reads the description that Tokenizer::to_text of such a tokenizer gives; null when it is none.
std::unique_ptr<Tokenizer> read_hub_description(const Json& description, std::string_view source);

}  // namespace fourfold::tokenizer
