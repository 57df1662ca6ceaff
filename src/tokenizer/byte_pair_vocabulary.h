// The tokens and merges of a GPT-2 tokenizer, checked: from vocab.json and merges.txt as OpenAI
// and Hugging Face write them, or from the description in a run directory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/byte_pair_merges.h"

namespace fourfold::tokenizer {

struct BytePairVocabulary {
  std::vector<std::string> tokens;    // their bytes, by id
  std::vector<BytePairMerge> merges;  // by rank
  std::array<std::int32_t, 256> ids_of_bytes{};
  std::optional<std::int32_t> end_of_document;  // "<|endoftext|>" or another; no merge makes it
  std::optional<std::int32_t> begin_of_text;    // where that is another token
};

/// A text and the name by which messages call it.
struct NamedText {
  std::string_view text, name;
};

/// vocab.json: one object, token to id, tokens in byte letters (byte_letters.h). merges.txt: a line
/// for each merge, "left right", the first rank first; a first line that begins with "#version"
/// does not count. Refused: tokens or ids that come twice, ids with gaps, a byte without a token of
/// its own, merges that come twice or whose parts or result are no tokens. Errors: UserError(code)
/// with file, line and token.
BytePairVocabulary read_byte_pair_vocabulary(NamedText vocabulary, NamedText merges, ExitCode code);

/// From these two files of a folder, and no other (load_tokenizer.cpp).
BytePairVocabulary read_byte_pair_folder(const std::string& folder);

/// {"vocabulary": [tokens by id, in byte letters], "merges": ["left right", ...]}, and
/// "end_of_document", its id, where that is not "<|endoftext|>", and "begin_of_text" where that is
/// another one.
void describe(const BytePairVocabulary& vocabulary, Json& description);
/// Reads what `describe` set. Errors: as above.
BytePairVocabulary read_description(const Json& description, std::string_view name, ExitCode code);

}  // namespace fourfold::tokenizer
