#include "tokenizer/byte_pair_merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <queue>

#include "base/error.h"

namespace fourfold::tokenizer {
namespace {

// Below, looking at all pairs again costs less than a queue (measured on words of English).
constexpr std::size_t most_short = 48;
constexpr std::size_t nowhere = SIZE_MAX;

/// A pair of neighbours that may merge, while both are still what they were.
struct Candidate {
  std::int32_t rank, left, right;
  std::size_t at;
  /// The queue gives the largest first.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

/// Tokens in a list from which any can be taken.
class TokenList {
 public:
  explicit TokenList(std::span<const std::int32_t> ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      nodes_.push_back({ids[i], i == 0 ? nowhere : i - 1, i + 1 == ids.size() ? nowhere : i + 1});
  }
  std::int32_t id(std::size_t at) const { return nodes_[at].id; }
  std::size_t next(std::size_t at) const { return nodes_[at].next; }
  std::size_t previous(std::size_t at) const { return nodes_[at].previous; }
  bool is_pair(const Candidate& c) const {
    return nodes_[c.at].id == c.left && next(c.at) != nowhere && id(next(c.at)) == c.right;
  }
  /// Joins the token at a place with the one after it.
  void join(std::size_t at, std::int32_t result) {
    Node& gone = nodes_[next(at)];
    nodes_[at].id = result;
    nodes_[at].next = gone.next;
    if (gone.next != nowhere) nodes_[gone.next].previous = at;
    gone.id = -1;
  }
  /// The list, which is no longer than `ids`.
  void copy_to(std::vector<std::int32_t>& ids) const {
    std::size_t kept = 0;
    for (std::size_t at = 0; at != nowhere; at = next(at)) ids[kept++] = id(at);
    ids.resize(kept);
  }

 private:
  struct Node {
    std::int32_t id;  // -1: no longer in the list
    std::size_t previous, next;
  };
  std::vector<Node> nodes_;
};

/// A queue of the pairs of a list that may be merged. The pair of least rank comes first, and pairs
/// of one rank come in the order of the list. `find` gives the merge of two ids, or null.
template <class Find>
class PairQueue {
 public:
  PairQueue(const TokenList& list, std::size_t size, Find find)
      : list_(list), find_(std::move(find)) {
    for (std::size_t at = 0; at < size; ++at) consider(at);
  }

  bool empty() const { return queue_.empty(); }
  const Candidate& top() const { return queue_.top(); }
  void pop() { queue_.pop(); }

  /// The pair that begins at a place, if there is one.
  void consider(std::size_t at) {
    if (at == nowhere || list_.next(at) == nowhere) return;
    if (const auto* entry = find_(list_.id(at), list_.id(list_.next(at))))
      queue_.push({entry->rank, entry->left, entry->right, at});
  }

 private:
  const TokenList& list_;
  Find find_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

BytePairMerges::BytePairMerges(std::span<const BytePairMerge> merges) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(merges.size() * 2, 2));
  table_.resize(size);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right, result] = merges[rank];
    std::size_t place = place_of(left, right);
    while (table_[place].rank != none) {
      require(table_[place].left != left || table_[place].right != right, "a pair merges once");
      place = (place + 1) % size;
    }
    table_[place] = {left, right, static_cast<std::int32_t>(rank), result};
  }
}

std::size_t BytePairMerges::place_of(std::int32_t left, std::int32_t right) const {
  const auto key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                   static_cast<std::uint32_t>(right);
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_);  // 2^64 / golden ratio
}

const BytePairMerges::Entry& BytePairMerges::find(std::int32_t left, std::int32_t right) const {
  std::size_t place = place_of(left, right);
  while (table_[place].rank != none && (table_[place].left != left || table_[place].right != right))
    place = (place + 1) & (table_.size() - 1);
  return table_[place];
}

void BytePairMerges::apply(std::vector<std::int32_t>& ids) const {
  if (ids.size() <= most_short)
    apply_short(ids);
  else
    apply_long(ids);
}

void BytePairMerges::apply_short(std::vector<std::int32_t>& ids) const {
  while (true) {
    Entry best;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      if (const Entry& entry = find(ids[i], ids[i + 1]); entry.rank < best.rank) best = entry;
    if (best.rank == none) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool merges = ids[i] == best.left && i + 1 < ids.size() && ids[i + 1] == best.right;
      ids[kept++] = merges ? best.result : ids[i];
      if (merges) ++i;
    }
    ids.resize(kept);
  }
}

void BytePairMerges::apply_long(std::vector<std::int32_t>& ids) const {
  TokenList list(ids);
  PairQueue queue(list, ids.size(), [this](std::int32_t left, std::int32_t right) {
    const Entry& entry = find(left, right);
    return entry.rank == none ? nullptr : &entry;
  });
  std::vector<std::size_t> merged;
  while (!queue.empty()) {
    // A pair is merged everywhere before the pairs that this makes are looked at.
    const std::int32_t rank = queue.top().rank;
    merged.clear();
    for (; !queue.empty() && queue.top().rank == rank; queue.pop()) {
      const Candidate& top = queue.top();
      if (!list.is_pair(top)) continue;
      list.join(top.at, find(top.left, top.right).result);
      merged.push_back(top.at);
    }
    for (const std::size_t at : merged) {
      queue.consider(list.previous(at));
      queue.consider(at);
    }
  }
  list.copy_to(ids);
}

void BytePairMerges::apply_in_order(std::vector<std::int32_t>& ids) const {
  if (ids.size() <= most_short)
    apply_short_in_order(ids);
  else
    apply_long_in_order(ids);
}

void BytePairMerges::apply_short_in_order(std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, most_short> ranks{};  // of the pair that begins at a place
  const auto look = [&](std::size_t at) { ranks[at] = find(ids[at], ids[at + 1]).rank; };
  for (std::size_t at = 0; at + 1 < ids.size(); ++at) look(at);
  while (ids.size() > 1) {
    const auto end = ranks.begin() + std::ssize(ids) - 1;
    const auto best = std::min_element(ranks.begin(), end);
    if (*best == none) return;
    const auto at = static_cast<std::size_t>(best - ranks.begin());
    ids[at] = find(ids[at], ids[at + 1]).result;
    ids.erase(ids.begin() + (best - ranks.begin()) + 1);
    std::copy(best + 1, end, best);
    if (at > 0) look(at - 1);
    if (at + 1 < ids.size()) look(at);
  }
}

void BytePairMerges::apply_long_in_order(std::vector<std::int32_t>& ids) const {
  TokenList list(ids);
  PairQueue queue(list, ids.size(), [this](std::int32_t left, std::int32_t right) {
    const Entry& entry = find(left, right);
    return entry.rank == none ? nullptr : &entry;
  });
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    if (!list.is_pair(top)) continue;
    list.join(top.at, find(top.left, top.right).result);
    queue.consider(list.previous(top.at));
    queue.consider(top.at);
  }
  list.copy_to(ids);
}

}  // namespace fourfold::tokenizer
