// What a tokenizer.json of byte pair encoding says, checked: the files of Llama, Qwen, SmolLM,
// Mistral and their like. Not the encoding: hub_tokenizer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tokenizer/byte_pair_merges.h"
#include "tokenizer/text_cutter.h"

namespace fourfold::tokenizer {

/// A change of a text before it is cut.
struct NormalStep {
  enum class What : std::uint8_t { normal_form, before, replace };
  What what = What::normal_form;
  std::string from, to;  // before: `to`
};

struct HubFile {
  struct Added {
    std::int32_t id = 0;
    std::string text;
    bool takes_left = false, takes_right = false;
    bool is_normalised = false;  // looked for in the text after its normalisation
    bool is_special = false;
  };

  std::vector<Added> added;  // by id
  std::vector<NormalStep> normal_steps;
  std::vector<CutStep> cut_steps;
  /// True if its tokens stand in the letters of byte_letters.h.
  bool is_of_bytes = false;
  std::vector<std::string> tokens;  // by id, as the file writes them; those that are added too
  std::int64_t num_words = 0;       // so many are the model's
  std::vector<BytePairMerge> merges;
  std::optional<std::int32_t> unknown;
  bool fuses_unknown = false, falls_back_to_bytes = false, takes_whole_words = false;
  std::vector<std::int32_t> before, after;  // the tokens that a text begins and ends with
  std::vector<std::string> notes;           // what is not done here
};

/// A text says why there is no such tokenizer here. Errors: UserError(bad_data) with `source` and
/// the part of the file, for what contradicts itself.
std::variant<HubFile, std::string> read_hub_file(const Json& json, std::string_view source);

/// "<0x0A>" for 0x0A: the token of a byte that no other token has.
std::string byte_token_text(unsigned byte);

}  // namespace fourfold::tokenizer
