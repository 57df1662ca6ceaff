#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/gpt2_chunks.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

std::size_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_space(char32_t code_point) {
  return character_classes()[code_point] == CharacterClass::space;
}

/// The place where the white space at the end of a text begins; `least` where that is earlier.
std::size_t begin_of_last_space(std::string_view text, std::size_t least) {
  std::size_t begin = text.size();
  while (begin > least) {
    std::size_t at = begin - 1;
    while (at > least && (byte_at(text, at) & 0xC0) == 0x80) --at;
    const auto found = first_code_point(text.substr(at, begin - at));
    if (!found || found->num_bytes != begin - at || !is_space(found->value)) break;
    begin = at;
  }
  return begin;
}

std::size_t end_of_first_space(std::string_view text, std::size_t at) {
  while (const auto found = first_code_point(text.substr(at))) {
    if (!is_space(found->value)) break;
    at += found->num_bytes;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, [](const Token& a, const Token& b) {
    const std::size_t first = byte_at(a.text, 0), other = byte_at(b.text, 0);
    return first != other ? first < other : a.text.size() > b.text.size();
  });
  for (const Token& token : tokens_) {
    const std::size_t first = byte_at(token.text, 0);
    ++of_byte_[first + 1];
    for (std::size_t second = 0; second < 256; ++second)
      if (token.text.size() == 1 || byte_at(token.text, 1) == second)
        pairs_[first * 256 + second] = true;
  }
  for (std::size_t byte = 0; byte < 256; ++byte) of_byte_[byte + 1] += of_byte_[byte];
}

const AddedTokens::Token* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  const std::size_t first = byte_at(text, at);
  if (at + 1 < text.size() && !pairs_[first * 256 + byte_at(text, at + 1)]) return nullptr;
  for (std::size_t i = of_byte_[first]; i < of_byte_[first + 1]; ++i)
    if (text.substr(at).starts_with(tokens_[i].text)) return &tokens_[i];
  return nullptr;
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    const std::size_t first = byte_at(text, at);
    if (of_byte_[first] == of_byte_[first + 1]) continue;
    const Token* token = longest_at(text, at);
    if (token == nullptr) continue;
    Found found{at, at + token->text.size(), token->id};
    if (token->takes_left) found.begin = begin_of_last_space(text.substr(0, at), from);
    if (token->takes_right) found.end = end_of_first_space(text, found.end);
    return found;
  }
  return std::nullopt;
}

}  // namespace fourfold::tokenizer
