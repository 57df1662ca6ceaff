// Text to token ids and back. Not a tokenizer that learns merges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_spec.h"

namespace fourfold::data {

/// Ids are 0 .. vocab_size() - 1. Decoding goes token by token: decode(a then b) = decode(a) then
/// decode(b).
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;

  /// `source` names the text in messages: a file, "the prompt". Errors: UserError(bad_data) with
  /// the place in the text, when it holds something that has no id.
  virtual std::vector<std::int32_t> encode(std::string_view text,
                                           std::string_view source) const = 0;
  /// Throws InternalError for an id out of range.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// One line of JSON from which `tokenizer_from_text` makes the same tokenizer again.
  virtual std::string to_text() const = 0;
};

/// The code points of `text`, sorted. Errors: UserError(bad_data) when it is empty or not UTF-8.
std::unique_ptr<Tokenizer> character_tokenizer(std::string_view text, std::string_view source);
/// Every byte is its own id: 256 of them.
std::unique_ptr<Tokenizer> byte_tokenizer();
/// For data that are not text: ids as decimal numbers, each followed by a space.
std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t vocab_size);

/// The tokenizer of that kind for a text.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind kind, std::string_view text,
                                          std::string_view source);

/// Reads what Tokenizer::to_text writes; `file` names it in messages. Errors:
/// UserError(no_checkpoint): it is a part of a saved model.
std::unique_ptr<Tokenizer> tokenizer_from_text(std::string_view text, std::string_view file);

}  // namespace fourfold::data
