#include "compile/occupancy.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

namespace fourfold::compile {
namespace {

constexpr std::size_t most_members = 8;  // of a branch

/// True if any of the lives meets any of the others. Cost: logarithmic for each of the lives.
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
  pass(root_, bytes, lives, offset);
  return offset;
}

bool Occupancy::pass(const Branch& branch, std::int64_t bytes, const std::vector<Interval>& lives,
                     std::int64_t& offset) const {
  ++num_looks_;
  if (branch.end <= offset || !meet(lives, branch.hull)) return false;
  const Cover& cover = branch.cover;
  if (cover.gap < bytes && cover.begin < offset + bytes && offset < cover.end &&
      meet(lives, cover.when)) {
    offset = cover.end;
    if (branch.end <= offset) return false;
  }
  for (const Branch& one : branch.branches)
    if (pass(one, bytes, lives, offset)) return true;
  for (const Stretch& stretch : branch.stretches) {
    if (stretch.end <= offset) continue;
    ++num_looks_;
    if (!meet(lives, stretch.lives)) continue;
    if (offset + bytes <= stretch.begin) return true;
    offset = stretch.end;
  }
  return false;
}

void Occupancy::add(std::int64_t begin, std::int64_t bytes, const std::vector<Interval>& lives) {
  add(begin, begin + bytes, lives, root_);
  if (std::max(root_.stretches.size(), root_.branches.size()) <= most_members) return;
  Branch root;
  root.branches.push_back(std::move(root_));
  split_if_full(root.branches, 0);
  summarize(root);
  root_ = std::move(root);
}

void Occupancy::add(std::int64_t begin, std::int64_t end, const std::vector<Interval>& lives,
                    Branch& branch) {
  if (!branch.branches.empty()) {
    const auto next = std::ranges::upper_bound(branch.branches, begin, {}, &Branch::begin);
    const auto one = next == branch.branches.begin() ? next : std::prev(next);
    add(begin, end, lives, *one);
    split_if_full(branch.branches, static_cast<std::size_t>(one - branch.branches.begin()));
    summarize(branch);
    return;
  }
  Stretch& stretch = stretch_at(begin, end, branch.stretches);
  const bool is_later = stretch.lives.empty() || stretch.lives.back().begin < lives.front().begin;
  const std::size_t kept = is_later && !stretch.lives.empty() ? stretch.lives.size() - 1 : 0;
  const auto added = stretch.lives.insert(stretch.lives.end(), lives.begin(), lives.end());
  if (!is_later) std::ranges::inplace_merge(stretch.lives, added, {}, &Interval::begin);
  join(stretch.lives, kept);
  for (const Interval& life : stretch.lives | std::views::drop(kept))
    if (stretch.longest.end - stretch.longest.begin <= life.end - life.begin)
      stretch.longest = life;
  summarize(branch);
}

Occupancy::Stretch& Occupancy::stretch_at(std::int64_t begin, std::int64_t end,
                                          std::vector<Stretch>& stretches) {
  const auto address = [](const Stretch& stretch) { return std::pair(stretch.begin, stretch.end); };
  auto stretch = std::ranges::lower_bound(stretches, std::pair(begin, end), {}, address);
  if (stretch == stretches.end() || address(*stretch) != std::pair(begin, end))
    stretch = stretches.insert(stretch, {begin, end, {}, {}});
  return *stretch;
}

/// Takes the long ones of lives of very different length: the short ones would leave no common
/// time.
Occupancy::Cover Occupancy::join_covers(std::span<const Cover> covers) {
  std::size_t longest = 0;
  for (const Cover& one : covers) longest = std::max(longest, one.when.end + 1 - one.when.begin);
  Cover all;
  for (const Cover& one : covers) {
    const std::size_t length = one.when.end + 1 - one.when.begin;
    if (length == 0 || 4 * length < longest) continue;
    if (all.begin == all.end) {
      all = one;
      continue;
    }
    const Interval both = {std::max(all.when.begin, one.when.begin),
                           std::min(all.when.end, one.when.end)};
    if (both.end < both.begin) continue;
    all = {all.begin, std::max(all.end, one.end), std::max({all.gap, one.gap, one.begin - all.end}),
           both};
  }
  return all;
}

void Occupancy::summarize(Branch& branch) {
  std::array<Cover, most_members + 1> covers;  // a branch is summarized before it is split
  std::size_t count = 0;
  const auto add = [&](std::int64_t end, const Interval& hull, const Cover& cover) {
    const bool is_first = count == 0;
    branch.end = is_first ? end : std::max(branch.end, end);
    branch.hull.begin = is_first ? hull.begin : std::min(branch.hull.begin, hull.begin);
    branch.hull.end = is_first ? hull.end : std::max(branch.hull.end, hull.end);
    covers[count++] = cover;
  };
  for (const Branch& one : branch.branches) add(one.end, one.hull, one.cover);
  for (const Stretch& one : branch.stretches)
    add(one.end, {one.lives.front().begin, one.lives.back().end},
        {one.begin, one.end, 0, one.longest});
  branch.begin = branch.branches.empty() ? branch.stretches[0].begin : branch.branches[0].begin;
  branch.cover = join_covers(std::span(covers).first(count));
}

void Occupancy::split_if_full(std::vector<Branch>& branches, std::size_t index) {
  const auto halve = []<class Member>(std::vector<Member>& lower, std::vector<Member>& upper) {
    const auto half = lower.begin() + static_cast<std::ptrdiff_t>(lower.size() / 2);
    upper.assign(std::move_iterator(half), std::move_iterator(lower.end()));
    lower.erase(half, lower.end());
  };
  Branch& full = branches[index];
  if (std::max(full.stretches.size(), full.branches.size()) <= most_members) return;
  Branch upper;
  halve(full.stretches, upper.stretches);
  halve(full.branches, upper.branches);
  summarize(full);
  summarize(upper);
  branches.insert(branches.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
}

}  // namespace fourfold::compile
