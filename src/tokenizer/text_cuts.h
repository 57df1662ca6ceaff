// Where a text may be cut so that a sentencepiece model gives its parts the ids of the whole.
#pragma once

#include <bitset>
#include <cstddef>
#include <string_view>

#include "tokenizer/sentencepiece_model.h"

namespace fourfold::tokenizer {

/// A cut lies between two characters that stand beside each other in no piece of the model, so no
/// piece reaches over it, and what the library does on one side of it (merges by score, the best
/// path) does not depend on the other. Characters are told apart by the byte beside the cut, which
/// gives fewer cuts and no wrong ones.
class TextCuts {
 public:
  explicit TextCuts(const SentencePieceModel& model);

  /// True if there may be any.
  bool exist() const { return begins_.any(); }
  /// True if the part after a cut loses its first space, because the model itself puts one before
  /// every text.
  bool drop_space() const { return drops_space_; }

  /// After this place of the text there are none. Cost: the spaces at its end.
  std::size_t limit(std::string_view text) const;
  /// The first cut at or after `from`, which is at least 1; the text's end when there is none
  /// before `limit`. `text`: UTF-8.
  std::size_t next(std::string_view text, std::size_t from, std::size_t limit) const;
  /// The last one before `limit`; 0 when there is none.
  std::size_t last(std::string_view text, std::size_t limit) const;

 private:
  bool is_cut(std::string_view text, std::size_t at) const;
  void join(std::string_view piece);
  void choose_begins(const SentencePieceModel& model);

  std::bitset<256> ends_, begins_;  // bytes that may stand before and after a cut
  std::bitset<65536> joined_;       // 256 x byte before + byte after, in some piece
  bool drops_space_;
};

}  // namespace fourfold::tokenizer
