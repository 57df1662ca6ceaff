#include "tokenizer/text_cuts.h"

#include <string>

#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

using Kind = SentencePieceModel::Kind;
using PieceKind = SentencePieceModel::PieceKind;

std::size_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool is_of_text(const SentencePieceModel::Piece& piece) {
  return piece.kind == PieceKind::normal || piece.kind == PieceKind::user_defined;
}

/// True if the library may make it of others, if only to take it apart again.
bool is_merged(const SentencePieceModel::Piece& piece) {
  return is_of_text(piece) || piece.kind == PieceKind::unused;
}

/// A space, in a piece, stands for both.
std::string_view as_space(std::string_view character) {
  return character == space_symbol ? std::string_view(" ") : character;
}

/// True if normalisation may see the parts alone.
bool keeps_parts(const SentencePieceModel& model) {
  const bool loses_first_space = model.removes_extra_spaces && !model.adds_dummy_prefix;
  return !loses_first_space && !model.space_is_suffix && model.charsmap_keeps_spaces_apart;
}

}  // namespace

TextCuts::TextCuts(const SentencePieceModel& model) : drops_space_(model.adds_dummy_prefix) {
  if (!keeps_parts(model)) return;
  for (const auto& piece : model.pieces)
    if (is_merged(piece)) join(piece.text);
  for (std::size_t byte = 0; byte < ends_.size(); ++byte)
    ends_[byte] = !model.has_charsmap || (byte > 0x20 && byte < 0x7F);
  if (drops_space_) ends_[' '] = false;  // a part of one space would be lost
  // Normalisation takes these from the end of a part.
  if (model.removes_extra_spaces) ends_[' '] = ends_[byte_at(space_symbol, 2)] = false;
  choose_begins(model);
}

void TextCuts::join(std::string_view piece) {
  std::string_view before;
  while (const auto found = first_code_point(piece)) {
    const std::string_view here = piece.substr(0, found->num_bytes);
    piece.remove_prefix(here.size());
    if (!before.empty())
      for (const auto left : {before, as_space(before)})
        for (const auto right : {here, as_space(here)})
          joined_[byte_at(left, left.size() - 1) * 256 + byte_at(right, 0)] = true;
    before = here;
  }
}

void TextCuts::choose_begins(const SentencePieceModel& model) {
  if (model.byte_fallback) {
    for (std::size_t byte = 0; byte < begins_.size(); ++byte)
      begins_[byte] = byte < 0x80 || byte >= 0xC0;  // no character begins with another byte
  } else {
    // Unknown characters beside each other become one token.
    for (const auto& piece : model.pieces) {
      const std::string_view text = model.escapes_spaces ? as_space(piece.text) : piece.text;
      if (is_of_text(piece) && text.size() == 1) begins_[byte_at(text, 0)] = true;
    }
  }
  // A dummy prefix comes before a dropped space only; words are looked up whole.
  const bool only_before_spaces =
      model.adds_dummy_prefix || model.has_charsmap || model.kind == Kind::word;
  if (only_before_spaces) begins_ &= std::bitset<256>().set(' ');
  if (!model.adds_dummy_prefix) return;
  for (const auto& piece : model.pieces)  // it would not see the space that is dropped
    if (piece.kind == PieceKind::user_defined && piece.text.find(' ') != piece.text.npos)
      begins_.reset();
}

std::size_t TextCuts::limit(std::string_view text) const {
  if (!exist()) return 0;
  // Spaces at the end stay with what is before them: a part must not be empty.
  return drops_space_ ? text.find_last_not_of(' ') + 1 : text.size();
}

std::size_t TextCuts::next(std::string_view text, std::size_t from, std::size_t limit) const {
  for (std::size_t at = from; at < limit; ++at)
    if (is_cut(text, at)) return at;
  return text.size();
}

std::size_t TextCuts::last(std::string_view text, std::size_t limit) const {
  for (std::size_t at = limit; at-- > 1;)
    if (is_cut(text, at)) return at;
  return 0;
}

bool TextCuts::is_cut(std::string_view text, std::size_t at) const {
  const std::size_t left = byte_at(text, at - 1), right = byte_at(text, at);
  return begins_[right] && ends_[left] && !joined_[left * 256 + right];
}

}  // namespace fourfold::tokenizer
