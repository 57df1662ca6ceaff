#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

/// Calls visit(code point, byte offset) for each character.
template <class Visit>
void for_each_character(std::string_view text, std::string_view source, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const auto found = first_code_point(text.substr(at));
    if (!found)
      throw UserError(ExitCode::bad_data,
                      format("{}: byte {} (0x{:02x}) is not UTF-8 text, expected characters; use "
                             "data.tokenizer: byte, or "
                             "convert the text to UTF-8",
                             source, at, static_cast<unsigned char>(text[at])));
    visit(found->value, at);
    at += found->num_bytes;
  }
}

/// Where the last character begins, be it whole or not.
std::size_t begin_of_last_character(std::string_view text) {
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
  };
  std::size_t at = text.empty() ? 0 : text.size() - 1;
  while (at > 0 && continues(text[at])) --at;
  return at;
}

std::size_t checked_index(std::int32_t id, std::int64_t vocab_size) {
  require(id >= 0 && id < vocab_size, "a token id is below the vocabulary size");
  return static_cast<std::size_t>(id);
}

class CharacterTokenizer final : public Tokenizer {
 public:
  /// `vocabulary`: sorted, each code point once.
  explicit CharacterTokenizer(std::u32string vocabulary) : vocabulary_(std::move(vocabulary)) {}

  std::string_view name() const override { return "char"; }
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(vocabulary_.size()); }

  std::vector<std::int32_t> encode(std::string_view text, std::string_view source) const override {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    for_each_character(text, source, [&](char32_t character, std::size_t at) {
      const auto place = std::lower_bound(vocabulary_.begin(), vocabulary_.end(), character);
      if (place == vocabulary_.end() || *place != character) fail_unknown(character, at, source);
      ids.push_back(static_cast<std::int32_t>(place - vocabulary_.begin()));
    });
    return ids;
  }

  std::size_t last_cut(std::string_view text) const override {
    return begin_of_last_character(text);
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids)
      append_utf8(text, vocabulary_[checked_index(id, vocab_size())]);
    return text;
  }

  std::string to_text() const override {
    std::string characters;
    for (const char32_t character : vocabulary_) append_utf8(characters, character);
    return Json::object().set("tokenizer", "character").set("vocabulary", characters).dump();
  }

 private:
  [[noreturn]] void fail_unknown(char32_t character, std::size_t at,
                                 std::string_view source) const {
    throw UserError(ExitCode::bad_data,
                    format("{}: character {} at byte {} is not among the {} characters of the "
                           "training text; leave it out, "
                           "or train with data.tokenizer: byte",
                           source, describe_character(character), at, vocabulary_.size()));
  }

  std::u32string vocabulary_;
};

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "byte"; }
  std::int64_t vocab_size() const override { return 256; }

  std::vector<std::int32_t> encode(std::string_view text,
                                   std::string_view /*source*/) const override {
    std::vector<std::int32_t> ids(text.size());
    std::transform(text.begin(), text.end(), ids.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
    return ids;
  }

  std::size_t last_cut(std::string_view text) const override {
    return text.empty() ? 0 : text.size() - 1;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids)
      text.push_back(static_cast<char>(checked_index(id, vocab_size())));
    return text;
  }

  std::string to_text() const override { return Json::object().set("tokenizer", "byte").dump(); }
};

class NumberTokenizer final : public Tokenizer {
 public:
  explicit NumberTokenizer(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  std::string_view name() const override { return "number"; }
  std::int64_t vocab_size() const override { return vocab_size_; }

  std::vector<std::int32_t> encode(std::string_view text, std::string_view source) const override {
    std::vector<std::int32_t> ids;
    for (std::size_t at = 0; (at = text.find_first_not_of(blanks, at)) != text.npos;) {
      const std::size_t end = std::min(text.find_first_of(blanks, at), text.size());
      ids.push_back(read_id(text.substr(at, end - at), at, source));
      at = end;
    }
    return ids;
  }

  std::size_t last_cut(std::string_view text) const override {
    const std::size_t at = text.find_last_of(blanks);
    return at == text.npos ? 0 : at;
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += format("{} ", checked_index(id, vocab_size()));
    return text;
  }

  std::string to_text() const override {
    return Json::object().set("tokenizer", "number").set("vocab_size", vocab_size_).dump();
  }

 private:
  static constexpr std::string_view blanks = " \t\r\n";

  std::int32_t read_id(std::string_view word, std::size_t at, std::string_view source) const {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocab_size_)
      throw UserError(
          ExitCode::bad_data,
          format("{}: {} at byte {} is no token; expected numbers from 0 to {}, with spaces "
                 "between them",
                 source, Json(word).dump(), at, vocab_size_ - 1));
    return id;
  }

  std::int64_t vocab_size_;
};

std::u32string sorted_characters(std::string_view text, std::string_view source) {
  std::vector<bool> seen(0x110000);
  for_each_character(text, source,
                     [&](char32_t character, std::size_t) { seen[character] = true; });
  std::u32string characters;
  for (char32_t character = 0; character < seen.size(); ++character)
    if (seen[character]) characters.push_back(character);
  return characters;
}

bool is_vocab_size(std::int64_t size) {
  return size >= 1 && size <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

std::vector<std::int32_t> Tokenizer::ends_of_text() const {
  const auto end = end_of_document();
  return end ? std::vector{*end} : std::vector<std::int32_t>();
}

std::unique_ptr<Tokenizer> character_tokenizer(std::string_view text, std::string_view source) {
  if (text.empty())
    throw UserError(ExitCode::bad_data,
                    format("{}: is empty, expected text; choose another file", source));
  return std::make_unique<CharacterTokenizer>(sorted_characters(text, source));
}

std::unique_ptr<Tokenizer> byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> number_tokenizer(std::int64_t vocab_size) {
  require(is_vocab_size(vocab_size), "a vocabulary has between 1 and 2^31 - 1 tokens");
  return std::make_unique<NumberTokenizer>(vocab_size);
}

}  // namespace fourfold::tokenizer
