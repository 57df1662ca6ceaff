// Learns a sentencepiece model from texts, one that gives every text back as it was.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/line_sample.h"

namespace fourfold::tokenizer {

struct SentencePieceSpec {
  std::int64_t vocab_size = 8000;  // asked for
  double coverage = 0.9995;        // share of the characters that get a piece of their own
  int threads = 1;  // that prepare the lines; learning has one. The model's bytes say how many
};

struct TrainedSentencePiece {
  std::string model;            // its bytes
  std::int64_t vocab_size = 0;  // may be below what was asked for, where the text has no more pairs
  std::int64_t reserved_lines = 0;  // with U+2585, which the library reserves: cut there
};

/// The longest line that the library learns from.
inline constexpr std::size_t most_sentencepiece_line = 4192;

/// Byte pair encoding over the lines, which are used up; all other characters become bytes, so
/// there is no text without ids, and nothing is normalised: the only character that does not come
/// back is U+2581, by which the format writes a space. Id 0 is the unknown piece, which no text
/// gets, 1 the end of a document, then 256 bytes. The same lines and
/// spec give the same bytes. Memory: about
/// twice the lines. Errors: UserError(bad_data) for no lines; UserError(bad_config) for a
/// vocabulary that does not hold the characters.
TrainedSentencePiece train_sentencepiece(const SentencePieceSpec& spec, LineSample& lines);

}  // namespace fourfold::tokenizer
