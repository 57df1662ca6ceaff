// Text to token ids and back, and the tokenizers that are made here: characters, bytes, numbers.
// Those that are read from files: sentencepiece.h, gpt2.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_kind.h"

namespace fourfold::tokenizer {

/// Ids are 0 .. vocab_size() - 1. For several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// The kind, as data.tokenizer names it: "gpt2".
  virtual std::string_view name() const = 0;
  virtual std::int64_t vocab_size() const = 0;
  /// The token that stands between documents; nothing where there is none. No text encodes to it,
  /// unless the tokenizer finds tokens that a text spells.
  virtual std::optional<std::int32_t> end_of_document() const { return std::nullopt; }
  /// The token by which a text begins where nothing comes before it: an empty prompt.
  virtual std::optional<std::int32_t> begin_of_text() const { return end_of_document(); }

  /// The tokens that end a text which a model writes; the first is end_of_document.
  virtual std::vector<std::int32_t> ends_of_text() const;
  /// The tokens that come after those of a whole document, because its tokenizer says so.
  virtual std::vector<std::int32_t> closing_tokens() const { return {}; }

  /// `source` names the text in messages: a file, "the prompt". Errors: UserError(bad_data) with
  /// the place in the text, when it holds something that has no id.
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           std::string_view source) const = 0;
  /// A document may be encoded in pieces: the last place of its beginning `text`, above 0 and below
  /// its size, where it may be cut whatever follows. encode(before the cut), then
  /// encode_rest(after it) gives the ids of encode(the whole). 0: there is no such place yet.
  virtual std::size_t last_cut(std::string_view text) const = 0;
  /// The ids of what comes after the cut.
  virtual std::vector<std::int32_t> encode_rest(std::string_view text,
                                                std::string_view source) const {
    return encode(text, source);
  }
  /// Token by token: decode(a then b) = decode(a) then decode(b). So one token may be a part of a
  /// character (see Utf8Stream), and the space that some sentencepiece models put before a text
  /// comes back. Throws InternalError for an id out of range.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// One line of JSON from which `tokenizer_from_text` makes the same tokenizer again.
  virtual std::string to_text() const = 0;
  /// "gpt2 of 50,257 tokens 0123456789abcdef0123456789abcdef": equal for equal tokenizers only.
  std::string fingerprint() const;
};

/// The code points of `text`, sorted. Errors: UserError(bad_data) when it is empty or not UTF-8.
std::unique_ptr<Tokenizer> character_tokenizer(std::string_view text, std::string_view source);
/// Every byte is its own id: 256 of them.
std::unique_ptr<Tokenizer> byte_tokenizer();
/// For data that are not text: ids as decimal numbers, each followed by a space.
std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t vocab_size);

/// A tokenizer that needs no text to be made from. `path`: a sentencepiece model, a folder with the
/// vocab.json and merges.txt of a GPT-2 tokenizer, or one with a tokenizer.json (hub_folder.h);
/// unused for bytes. Errors:
/// UserError(bad_data) for files that are missing or no such tokenizer; UserError(bad_config) for
/// TokenizerKind::character.
std::unique_ptr<Tokenizer> load_tokenizer(TokenizerKind kind, const std::string& path);

/// Reads what Tokenizer::to_text writes; `file` names it in messages. Errors:
/// UserError(no_checkpoint): it is a part of a saved model.
std::unique_ptr<Tokenizer> tokenizer_from_text(std::string_view text, std::string_view file);

}  // namespace fourfold::tokenizer
