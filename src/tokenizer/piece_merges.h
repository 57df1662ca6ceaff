// The merges by which byte pair encoding makes the pieces of a sentencepiece model: what
// tokenizer.json lists, and sentencepiece derives from the scores of its pieces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::tokenizer {

struct ScoredPiece {
  std::string_view text;
  float score = 0;
};

struct PieceMerge {
  std::string_view left, right;
  bool operator==(const PieceMerge&) const = default;
};

/// Every cut of a piece in two of the pieces; pieces of higher score first, cuts of one piece from
/// the left to the right. The texts lie in the pieces.
std::vector<PieceMerge> merges_of_pieces(std::span<const ScoredPiece> pieces);

}  // namespace fourfold::tokenizer
