#include "tokenizer/hub_words.h"

#include <algorithm>

#include "tokenizer/byte_letters.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

std::string with_spaces(std::string text) {
  for (std::size_t at = 0; (at = text.find(space_symbol, at)) != text.npos; ++at)
    text.replace(at, space_symbol.size(), " ");
  return text;
}

}  // namespace

HubWords::HubWords(const HubFile& file)
    : is_of_bytes_(file.is_of_bytes),
      takes_whole_words_(file.takes_whole_words),
      falls_back_to_bytes_(file.falls_back_to_bytes),
      fuses_unknown_(file.fuses_unknown),
      unknown_(file.unknown),
      merges_(file.merges) {
  ids_of_bytes_.fill(-1);
  for (std::int64_t id = 0; id < file.num_words; ++id) {
    const std::string& token = file.tokens[static_cast<std::size_t>(id)];
    // A token that is not made of letters for bytes is none of a text.
    const auto text = is_of_bytes_ ? from_byte_letters(token) : std::optional(token);
    if (text) ids_.emplace(*text, static_cast<std::int32_t>(id));
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found =
        ids_.find(is_of_bytes_ ? std::string(1, static_cast<char>(byte)) : byte_token_text(byte));
    if (found != ids_.end()) ids_of_bytes_[byte] = found->second;
  }
  find_surfaces(file);
  if (!is_of_bytes_) find_joined(file);
}

void HubWords::find_surfaces(const HubFile& file) {
  for (const std::string& token : file.tokens)
    surfaces_.push_back(is_of_bytes_ ? from_byte_letters(token).value_or(token)
                                     : with_spaces(token));
  if (falls_back_to_bytes_ && !is_of_bytes_)
    for (unsigned byte = 0; byte < 256; ++byte)
      if (ids_of_bytes_[byte] >= 0)
        surfaces_[static_cast<std::size_t>(ids_of_bytes_[byte])] =
            std::string(1, static_cast<char>(byte));
  for (const HubFile::Added& added : file.added)
    surfaces_[static_cast<std::size_t>(added.id)] = added.text;
}

void HubWords::find_joined(const HubFile& file) {
  for (const BytePairMerge& merge : file.merges) {
    const std::string& text = file.tokens[static_cast<std::size_t>(merge.result)];
    for (std::size_t at = 1; (at = text.find(space_symbol, at)) != text.npos; ++at)
      joined_[static_cast<unsigned char>(text[at - 1])] = true;
  }
  // Beside another character without a token it would become one with it.
  if (!ids_.contains(std::string(space_symbol))) joined_.set();
}

bool HubWords::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  ids.clear();
  if (takes_whole_words_)
    if (const auto found = ids_.find(std::string(word)); found != ids_.end()) {
      ids.push_back(found->second);
      return true;
    }
  if (!is_of_bytes_)
    add_characters(word, ids);
  else if (!add_bytes(word, ids))
    return false;
  merges_.apply_in_order(ids);
  return true;
}

bool HubWords::add_bytes(std::string_view word, std::vector<std::int32_t>& ids) const {
  for (const char byte : word) {
    const std::int32_t id = ids_of_bytes_[static_cast<unsigned char>(byte)];
    if (id < 0) return false;
    ids.push_back(id);
  }
  return true;
}

void HubWords::add_characters(std::string_view word, std::vector<std::int32_t>& ids) const {
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const auto character = first_code_point(word.substr(at));
    const std::string_view text = word.substr(at, character ? character->num_bytes : 1);
    at += text.size();
    if (const auto found = ids_.find(std::string(text)); found != ids_.end()) {
      ids.push_back(found->second);
      after_unknown = false;
    } else if (falls_back_to_bytes_) {
      for (const char byte : text) ids.push_back(ids_of_bytes_[static_cast<unsigned char>(byte)]);
    } else {
      if (!after_unknown || !fuses_unknown_) ids.push_back(*unknown_);
      after_unknown = true;
    }
  }
}

}  // namespace fourfold::tokenizer
