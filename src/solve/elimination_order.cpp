#include "solve/elimination_order.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

namespace fourfold::solve {
namespace {

/// Neighbours among which missing edges are counted one by one; among more, all count.
constexpr std::size_t most_counted = 48;

enum class First : std::uint8_t { smallest_table, fewest_joined };

class Orderer {
 public:
  Orderer(const Problem& problem, std::span<const std::size_t> kept, First first)
      : problem_(problem),
        first_(first),
        neighbours_(problem.nodes.size()),
        is_kept_(problem.nodes.size()),
        keys_(problem.nodes.size()) {
    for (const Edge& edge : problem.edges) {
      neighbours_[edge.src].push_back(edge.dst);
      neighbours_[edge.dst].push_back(edge.src);
    }
    for (std::vector<std::size_t>& list : neighbours_) {
      std::ranges::sort(list);
      list.erase(std::ranges::unique(list).begin(), list.end());
    }
    for (const std::size_t node : kept) is_kept_[node] = true;
  }

  EliminationOrder run() {
    for (std::size_t node = 0; node < keys_.size(); ++node)
      if (!is_kept_[node]) queue_.insert(keys_[node] = key_of(node));
    EliminationOrder order;
    while (!queue_.empty()) {
      const std::size_t node = std::get<2>(*queue_.begin());
      queue_.erase(queue_.begin());
      order.nodes.push_back(node);
      order.neighbours.push_back(neighbours_[node]);
      order.width = std::max(order.width, neighbours_[node].size());
      order.entries += table_of(node);
      remove(node);
    }
    return order;
  }

 private:
  using Key = std::tuple<double, double, std::size_t>;

  /// Entries of its table, times its choices.
  double table_of(std::size_t node) const {
    auto entries = static_cast<double>(problem_.choices(node));
    for (const std::size_t other : neighbours_[node])
      entries *= static_cast<double>(problem_.choices(other));
    return entries;
  }

  bool are_neighbours(std::size_t a, std::size_t b) const {
    return std::ranges::binary_search(neighbours_[a], b);
  }

  double joined_by(std::size_t node) const {
    const std::vector<std::size_t>& all = neighbours_[node];
    const auto number = static_cast<double>(all.size());
    if (all.size() > most_counted) return number * (number - 1) / 2;
    double missing = 0;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (!are_neighbours(all[i], all[j])) ++missing;
    return missing;
  }

  Key key_of(std::size_t node) const {
    return first_ == First::smallest_table ? Key(table_of(node), 0, node)
                                           : Key(joined_by(node), table_of(node), node);
  }

  void update(std::size_t node) {
    if (is_kept_[node]) return;
    const Key key = key_of(node);
    if (key == keys_[node]) return;
    queue_.erase(keys_[node]);
    queue_.insert(keys_[node] = key);
  }

  void remove(std::size_t node) {
    const std::vector<std::size_t> joined = std::move(neighbours_[node]);
    bool has_new = false;
    for (const std::size_t one : joined) {
      std::vector<std::size_t>&list = neighbours_[one], merged;
      const std::size_t before = list.size();
      merged.reserve(before + joined.size());
      std::ranges::set_union(list, joined, std::back_inserter(merged));
      std::erase_if(merged, [&](std::size_t other) { return other == node || other == one; });
      has_new = has_new || merged.size() >= before;
      list = std::move(merged);
    }
    for (const std::size_t one : joined) update(one);
    // New edges between neighbours are missing no longer for those who know both.
    if (first_ != First::fewest_joined || !has_new) return;
    std::set<std::size_t> further;
    for (const std::size_t one : joined)
      if (neighbours_[one].size() <= most_counted)
        further.insert(neighbours_[one].begin(), neighbours_[one].end());
    for (const std::size_t one : joined) further.erase(one);
    for (const std::size_t one : further) update(one);
  }

  const Problem& problem_;
  First first_;
  std::vector<std::vector<std::size_t>> neighbours_;
  std::vector<bool> is_kept_;
  std::vector<Key> keys_;
  std::set<Key> queue_;
};

/// Sorts neighbours by when they go, and counts the bytes of tables that are there at once.
void complete(const Problem& problem, std::span<const std::size_t> kept, EliminationOrder& order) {
  std::vector<std::size_t>& place = order.place;
  place.resize(problem.nodes.size());
  for (std::size_t at = 0; at < order.nodes.size(); ++at) place[order.nodes[at]] = at;
  for (std::size_t at = 0; at < kept.size(); ++at)
    place[kept[at]] = problem.nodes.size() + kept.size() - at;
  std::vector<double> freed(order.nodes.size() + 1);  // by place, of tables that are read there
  double now = 0, remembered = 0;
  for (std::size_t at = 0; at < order.nodes.size(); ++at) {
    std::vector<std::size_t>& neighbours = order.neighbours[at];
    std::ranges::sort(neighbours, std::greater<>(), [&](std::size_t node) { return place[node]; });
    double entries = 1;
    for (const std::size_t node : neighbours) entries *= static_cast<double>(problem.choices(node));
    now += entries * sizeof(double);
    remembered += entries * sizeof(std::uint16_t);
    order.bytes = std::max(order.bytes, now + remembered);
    now -= freed[at];
    const std::size_t read = neighbours.empty() ? order.nodes.size() : place[neighbours.back()];
    freed[std::min(read, order.nodes.size())] += entries * sizeof(double);
  }
}

}  // namespace

EliminationOrder choose_order(const Problem& problem, std::span<const std::size_t> kept) {
  EliminationOrder small = Orderer(problem, kept, First::smallest_table).run();
  EliminationOrder few = Orderer(problem, kept, First::fewest_joined).run();
  EliminationOrder& order = few.entries < small.entries ? few : small;
  complete(problem, kept, order);
  return std::move(order);
}

}  // namespace fourfold::solve
