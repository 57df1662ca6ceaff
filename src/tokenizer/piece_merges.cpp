#include "tokenizer/piece_merges.h"

#include <algorithm>
#include <unordered_set>

#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {

std::vector<PieceMerge> merges_of_pieces(std::span<const ScoredPiece> pieces) {
  std::unordered_set<std::string_view> texts;
  for (const ScoredPiece& piece : pieces) texts.insert(piece.text);
  std::vector<ScoredPiece> by_score(pieces.begin(), pieces.end());
  std::stable_sort(by_score.begin(), by_score.end(),
                   [](const ScoredPiece& a, const ScoredPiece& b) { return a.score > b.score; });
  std::vector<PieceMerge> merges;
  for (const ScoredPiece& piece : by_score) {
    std::size_t cut = 0;
    while (const auto character = first_code_point(piece.text.substr(cut))) {
      cut += character->num_bytes;
      const PieceMerge merge{piece.text.substr(0, cut), piece.text.substr(cut)};
      if (texts.contains(merge.left) && texts.contains(merge.right)) merges.push_back(merge);
    }
  }
  return merges;
}

}  // namespace fourfold::tokenizer
