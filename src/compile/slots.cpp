#include "compile/slots.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace fourfold::compile {
namespace {

constexpr std::size_t most_slots = 128;  // of a block

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

std::int64_t Slots::lowest_offset(std::int64_t bytes, const std::vector<Interval>& lives) const {
  std::int64_t offset = 0;
  for (const Block& block : blocks_) {
    if (block.end <= offset || !meet(lives, block.hull)) continue;
    if (block.gap < bytes && offset + bytes > block.slots[0].begin && meet(lives, block.common)) {
      offset = block.end;
      continue;
    }
    for (const Slot& slot : block.slots) {
      if (slot.end <= offset || !meet(lives, slot.lives)) continue;
      if (offset + bytes <= slot.begin) return offset;
      offset = slot.end;
    }
  }
  return offset;
}

void Slots::add(std::int64_t begin, std::int64_t bytes, const std::vector<Interval>& lives) {
  const auto first = [](const Block& block) {
    return std::pair(block.slots[0].begin, block.slots[0].end);
  };
  const std::pair place(begin, begin + bytes);
  if (blocks_.empty()) blocks_.push_back({{{begin, begin + bytes, {}, {}}}, 0, {}, {}, 0});
  const auto behind = std::ranges::upper_bound(blocks_, place, {}, first);
  const auto block = behind == blocks_.begin() ? behind : std::prev(behind);

  Slot& slot = slot_at(place.first, place.second, *block);
  const bool is_later = slot.lives.empty() || slot.lives.back().begin < lives.front().begin;
  const std::size_t kept = is_later && !slot.lives.empty() ? slot.lives.size() - 1 : 0;
  const auto added = slot.lives.insert(slot.lives.end(), lives.begin(), lives.end());
  if (!is_later) std::ranges::inplace_merge(slot.lives, added, {}, &Interval::begin);
  join(slot.lives, kept);
  for (const Interval& life : slot.lives | std::views::drop(kept))
    if (slot.longest.end - slot.longest.begin <= life.end - life.begin) slot.longest = life;
  summarize(*block);
  split_if_full(static_cast<std::size_t>(block - blocks_.begin()));
}

Slots::Slot& Slots::slot_at(std::int64_t begin, std::int64_t end, Block& block) {
  const auto address = [](const Slot& slot) { return std::pair(slot.begin, slot.end); };
  auto slot = std::ranges::lower_bound(block.slots, std::pair(begin, end), {}, address);
  if (slot == block.slots.end() || address(*slot) != std::pair(begin, end))
    slot = block.slots.insert(slot, {begin, end, {}, {}});
  return *slot;
}

void Slots::summarize(Block& block) {
  block.end = block.gap = 0;
  block.hull = block.common = block.slots[0].longest;
  const Slot* before = nullptr;
  for (const Slot& slot : block.slots) {
    block.end = std::max(block.end, slot.end);
    block.hull.begin = std::min(block.hull.begin, slot.lives.front().begin);
    block.hull.end = std::max(block.hull.end, slot.lives.back().end);
    block.common.begin = std::max(block.common.begin, slot.longest.begin);
    block.common.end = std::min(block.common.end, slot.longest.end);
    if (before != nullptr) block.gap = std::max(block.gap, slot.begin - before->end);
    before = &slot;
  }
}

void Slots::split_if_full(std::size_t index) {
  std::vector<Slot>& slots = blocks_[index].slots;
  if (slots.size() <= most_slots) return;
  const auto half = slots.begin() + most_slots / 2;
  Block upper;
  upper.slots.assign(std::move_iterator(half), std::move_iterator(slots.end()));
  slots.erase(half, slots.end());
  summarize(blocks_[index]);
  summarize(upper);
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
}

}  // namespace fourfold::compile
