// The files beside a tokenizer of Hugging Face say which tokens stand for no text. One
// function reads all of them, as any of them may be the only one that says it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/byte_pair_vocabulary.h"

namespace fourfold::tokenizer {

struct SpecialTokens {
  struct Added {
    std::int64_t id = 0;
    std::string text;
    std::string file;  // the first that says so
    bool operator==(const Added&) const = default;
  };
  std::vector<Added> added;         // by id, each once
  std::optional<std::int64_t> end;  // of a text
  std::string end_file;             // which says that
  /// All that end a text by that file; `end` is the first.
  std::vector<std::int64_t> ends;
  std::optional<std::int64_t> begin;  // of a text
  std::string begin_file;
  /// Where files contradict each other or the vocabulary, what they set that is not done here, and
  /// which of them cannot be read.
  std::vector<std::string> notes;
  /// The same for a tokenizer that has one end of a text and puts nothing before or after it.
  std::vector<std::string> notes_of_one_end;
  /// What tokenizer_config.json says of the tokens before and after a text (add_bos_token,
  /// add_eos_token).
  std::optional<bool> adds_begin, adds_end;
};

/// Reads those that are there: tokenizer.json, tokenizer_config.json, added_tokens.json and
/// special_tokens_map.json for added tokens; generation_config.json, config.json,
/// tokenizer_config.json and special_tokens_map.json for the end of a text and for its beginning.
/// What the first of them says is taken, and what others say otherwise is noted. `vocabulary` has
/// the texts of the tokenizer's tokens by id.
SpecialTokens read_special_tokens(const std::string& folder,
                                  std::span<const std::string> vocabulary);

/// Where the vocabulary of a folder's tokenizer.json has other texts for ids than `vocabulary`, in
/// the letters of that file: a note, which names the first. Else empty. `read_file` is the file
/// that is read in its place.
std::string compare_with_tokenizer_json(const std::string& folder,
                                        std::span<const std::string> vocabulary,
                                        const std::string& read_file);

/// Adds the tokens that follow the vocabulary, as far as there are `most_tokens`, makes the end of
/// a text the end of documents, unless merges make that token from texts, and takes its beginning.
/// What cannot be done is noted.
void use_special_tokens(BytePairVocabulary& vocabulary, const SpecialTokens& special,
                        std::int64_t most_tokens, std::vector<std::string>& notes);

}  // namespace fourfold::tokenizer
