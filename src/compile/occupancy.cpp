#include "compile/occupancy.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace fourfold::compile {
namespace {

constexpr std::size_t most_stretches = 128;  // of a block

/// Whether any of the lives meets any of the others. Cost: logarithmic for each of the lives.
bool meet(const std::vector<Interval>& lives, std::span<const Interval> others) {
  auto other = others.begin();
  for (const Interval& life : lives) {
    other = std::ranges::lower_bound(other, others.end(), life.begin, {}, &Interval::end);
    if (other == others.end()) return false;
    if (other->begin <= life.end) return true;
  }
  return false;
}

bool meet(const std::vector<Interval>& lives, const Interval& other) {
  return other.begin <= other.end && meet(lives, std::span(&other, 1));
}

}  // namespace

void join(std::vector<Interval>& lives, std::size_t from) {
  std::size_t last = from;
  for (const Interval& life : lives | std::views::drop(from))
    if (life.begin <= lives[last].end + 1)
      lives[last].end = std::max(lives[last].end, life.end);
    else
      lives[++last] = life;
  lives.resize(lives.empty() ? 0 : last + 1);
}

std::int64_t Occupancy::lowest_offset(std::int64_t bytes,
                                      const std::vector<Interval>& lives) const {
  std::int64_t offset = 0;
  for (const Block& block : blocks_) {
    if (block.end <= offset || !meet(lives, block.hull)) continue;
    if (block.gap < bytes && offset + bytes > block.stretches[0].begin &&
        meet(lives, block.common)) {
      offset = block.end;
      continue;
    }
    for (const Stretch& stretch : block.stretches) {
      if (stretch.end <= offset || !meet(lives, stretch.lives)) continue;
      if (offset + bytes <= stretch.begin) return offset;
      offset = stretch.end;
    }
  }
  return offset;
}

void Occupancy::add(std::int64_t begin, std::int64_t bytes, const std::vector<Interval>& lives) {
  const auto first = [](const Block& block) {
    return std::pair(block.stretches[0].begin, block.stretches[0].end);
  };
  const std::pair place(begin, begin + bytes);
  if (blocks_.empty()) blocks_.push_back({{{begin, begin + bytes, {}, {}}}, 0, {}, {}, 0});
  const auto behind = std::ranges::upper_bound(blocks_, place, {}, first);
  const auto block = behind == blocks_.begin() ? behind : std::prev(behind);

  Stretch& stretch = stretch_at(place.first, place.second, *block);
  const bool is_later = stretch.lives.empty() || stretch.lives.back().begin < lives.front().begin;
  const std::size_t kept = is_later && !stretch.lives.empty() ? stretch.lives.size() - 1 : 0;
  const auto added = stretch.lives.insert(stretch.lives.end(), lives.begin(), lives.end());
  if (!is_later) std::ranges::inplace_merge(stretch.lives, added, {}, &Interval::begin);
  join(stretch.lives, kept);
  for (const Interval& life : stretch.lives | std::views::drop(kept))
    if (stretch.longest.end - stretch.longest.begin <= life.end - life.begin)
      stretch.longest = life;
  summarize(*block);
  split_if_full(static_cast<std::size_t>(block - blocks_.begin()));
}

Occupancy::Stretch& Occupancy::stretch_at(std::int64_t begin, std::int64_t end, Block& block) {
  const auto address = [](const Stretch& stretch) { return std::pair(stretch.begin, stretch.end); };
  auto stretch = std::ranges::lower_bound(block.stretches, std::pair(begin, end), {}, address);
  if (stretch == block.stretches.end() || address(*stretch) != std::pair(begin, end))
    stretch = block.stretches.insert(stretch, {begin, end, {}, {}});
  return *stretch;
}

void Occupancy::summarize(Block& block) {
  block.end = block.gap = 0;
  block.hull = block.common = block.stretches[0].longest;
  const Stretch* before = nullptr;
  for (const Stretch& stretch : block.stretches) {
    block.end = std::max(block.end, stretch.end);
    block.hull.begin = std::min(block.hull.begin, stretch.lives.front().begin);
    block.hull.end = std::max(block.hull.end, stretch.lives.back().end);
    block.common.begin = std::max(block.common.begin, stretch.longest.begin);
    block.common.end = std::min(block.common.end, stretch.longest.end);
    if (before != nullptr) block.gap = std::max(block.gap, stretch.begin - before->end);
    before = &stretch;
  }
}

void Occupancy::split_if_full(std::size_t index) {
  std::vector<Stretch>& stretches = blocks_[index].stretches;
  if (stretches.size() <= most_stretches) return;
  const auto half = stretches.begin() + most_stretches / 2;
  Block upper;
  upper.stretches.assign(std::move_iterator(half), std::move_iterator(stretches.end()));
  stretches.erase(half, stretches.end());
  summarize(blocks_[index]);
  summarize(upper);
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
}

}  // namespace fourfold::compile
