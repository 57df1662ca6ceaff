// What stands in a sentencepiece model: a strict reading of its bytes, before the library sees
// them, for it trusts a model. Not the library: no encoding here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace fourfold::tokenizer {

/// What pieces have for a space.
constexpr std::string_view space_symbol = "\u2581";
/// Far above any piece that training makes (16 characters); the library recurses on their lengths,
/// and every cut of a piece is looked at.
constexpr std::size_t most_piece_bytes = 512;

struct SentencePieceModel {
  enum class Kind : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  /// As numbered in the format.
  enum class PieceKind : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  struct Piece {
    std::string_view text;
    PieceKind kind = PieceKind::normal;
    float score = 0;
  };

  Kind kind = Kind::unigram;
  std::vector<Piece> pieces;  // by id; their texts lie in the bytes that were read
  bool byte_fallback = false;
  bool adds_dummy_prefix = true;  // a space before every text
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;  // as U+2581
  bool space_is_suffix = false;
  bool has_charsmap = false;
  std::string_view charsmap;  // lies in the bytes that were read; empty: nothing is replaced
  bool charsmap_keeps_spaces_apart = true;  // see CharsmapFacts
  std::string unknown_surface = " \u2047 ";
};

/// The model in these bytes (ModelProto of sentencepiece_model.proto, releases 0.1 and 0.2).
/// Refused are, besides what is not in that format: fields that come twice, pieces that are empty,
/// long, double, not UTF-8 or hold a zero byte, scores that are no numbers, byte pieces that are
/// not all 256 or not asked for, more or less than one unknown piece, normalisation that reaches
/// outside of its table, and denormalisation. Errors: UserError(code), which begins with `source`.
SentencePieceModel read_sentencepiece_model(std::string_view bytes, std::string_view source,
                                            ExitCode code);

/// The bytes of a model, from which read_sentencepiece_model gives it again; the library has its
/// own defaults for what is not in the struct.
std::string sentencepiece_model_bytes(const SentencePieceModel& model);

/// 0x0A of "<0x0A>".
std::optional<std::uint8_t> byte_of_piece(std::string_view text);

}  // namespace fourfold::tokenizer
