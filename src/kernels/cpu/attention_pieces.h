// How threads share attention and its gradient: whole groups of heads, or pieces of all of their
// heads where there are too few. No bit depends on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/scratch.h"

namespace fourfold::kernels::cpu {

/// A thread's share of the heads of a group: all of them, or of each one of several pieces of about
/// the same work.
struct Piece {
  Range units;  // the heads, one after another
  std::int64_t index, count;
  /// The head that the thread takes after these, AttentionSizes::units() if there is none.
  std::int64_t next_group;

  bool is_whole() const { return count == 1; }
  /// The head that the thread takes after one of these; if it takes pieces, it does not say.
  std::int64_t next(std::int64_t unit, const AttentionSizes& sizes) const {
    if (!is_whole()) return sizes.units();
    return unit + 1 < units.last ? unit + 1 : next_group;
  }
  /// Its queries, whole blocks but for the head's last ones. Of causal attention the first q
  /// queries see q^2 / 2 keys.
  Range queries(std::int64_t time, bool is_causal) const {
    return range(time, query_block,
                 [&](double share) { return is_causal ? std::sqrt(share) : share; });
  }
  /// Its keys. Of causal attention the last k keys are seen k^2 / 2 times.
  Range keys(std::int64_t time, bool is_causal) const {
    constexpr std::int64_t whole_tiles = 12;  // of six or twelve rows
    return range(time, whole_tiles,
                 [&](double share) { return is_causal ? 1 - std::sqrt(1 - share) : share; });
  }

 private:
  template <class PartOf>
  Range range(std::int64_t time, std::int64_t grain, PartOf part_of) const {
    const auto cut = [&](std::int64_t at) {
      const double share = static_cast<double>(at) / static_cast<double>(count);
      const double grains = part_of(share) * static_cast<double>(time) / static_cast<double>(grain);
      return at == count ? time : std::min(time, std::int64_t{std::llround(grains)} * grain);
    };
    return {cut(index), cut(index + 1)};
  }
};

/// How many pieces each head of a group is cut into, so that threads are busy: one, unless more of
/// them, whose work is done at `efficiency`, finish a tenth earlier.
inline std::int64_t pieces_of_groups(const AttentionSizes& sizes, int threads, double efficiency) {
  const auto use = [&](std::int64_t pieces) {
    const std::int64_t all = sizes.unit_groups() * pieces;
    return static_cast<double>(all) / static_cast<double>(ceil_divide(all, threads) * threads);
  };
  std::int64_t best = 1;
  double best_use = use(1);
  for (std::int64_t pieces = 2; pieces <= ceil_divide(sizes.time, query_block); ++pieces) {
    if (efficiency * use(pieces) < 1.1 * best_use) continue;
    best = pieces;
    best_use = efficiency * use(pieces);
  }
  return best;
}

/// body(piece, scratch) for all pieces of every group of every sample, shared among threads.
template <class HeadScratch, class Body>
void for_pieces(const AttentionSizes& sizes, double efficiency, int threads, std::byte* workspace,
                Body&& body) {
  const int parts = team_size(threads, sizes.work());
  const std::int64_t pieces = pieces_of_groups(sizes, parts, efficiency);
  for_parts(parts, [&](int part) {
    Scratch scratch(workspace + part * thread_bytes<HeadScratch>(sizes));
    const HeadScratch own(scratch, sizes);
    const Range tasks = range_of(part, parts, sizes.unit_groups() * pieces, 1);
    for (std::int64_t task = tasks.first; task < tasks.last; ++task) {
      const std::int64_t first = task / pieces * sizes.of_group, end = first + sizes.of_group;
      const bool has_next = task + 1 < tasks.last;
      body(Piece{{first, end}, task % pieces, pieces, has_next ? end : sizes.units()}, own);
    }
  });
}

}  // namespace fourfold::kernels::cpu
