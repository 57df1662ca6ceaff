// A value for every address, kept as runs of equal history. Not a general container.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace fourfold {

/// Neighbouring runs lie together in leaves, and the leaves in a tree: where there are many runs,
/// few of the steps to one leave the processor's caches. `Value` has a default.
/// Cost: logarithmic in the number of runs, plus the runs touched.
template <class Value>
class IntervalMap {
 public:
  explicit IntervalMap(const Value& initial) {
    Leaf& leaf = leaves_[std::numeric_limits<std::int64_t>::min()];
    leaf.begins[0] = std::numeric_limits<std::int64_t>::min();
    leaf.values[0] = initial;
    leaf.count = 1;
  }

  /// Calls `visit(const Value&)` for every run that meets [begin, end).
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    visit_runs(begin, end, [&](std::int64_t, const Value& value) { visit(value); });
  }

  /// The same with where the run begins, which may be before `begin`.
  template <class Visit>
  void visit_runs(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    for_each_from(leaves_, begin, end, visit);
  }

  /// Calls `change(Value&)` for every run of [begin, end), split off from what lies around it.
  template <class Change>
  void change(std::int64_t begin, std::int64_t end, Change&& change) {
    if (begin >= end) return;
    split(end);
    split(begin);
    for_each_from(leaves_, begin, end, [&](std::int64_t, Value& value) { change(value); });
  }

  void assign(std::int64_t begin, std::int64_t end, const Value& value) {
    if (begin >= end) return;
    split(end);
    split(begin);
    const auto first = leaf_of(leaves_, begin);
    const std::size_t at = first->second.find(begin);
    first->second.values[at] = value;
    first->second.erase(at + 1, first->second.find_first(end));
    if (std::next(first) == leaves_.end() || std::next(first)->first >= end) return;
    const auto last = leaf_of(leaves_, end);  // the one in which a run begins at `end`
    leaves_.erase(std::next(first), last);
    if (last->first == end) return;
    last->second.erase(0, last->second.find(end));
    auto rest = leaves_.extract(last);
    rest.key() = end;
    leaves_.insert(std::move(rest));
  }

 private:
  struct Leaf {
    static constexpr std::size_t most = 32;  // runs: some cache lines of addresses
    std::array<std::int64_t, most> begins;
    std::array<Value, most> values;
    std::size_t count = 0;

    /// The first run that begins at `at` or later.
    std::size_t find_first(std::int64_t at) const {
      return static_cast<std::size_t>(std::lower_bound(begins.data(), begins.data() + count, at) -
                                      begins.data());
    }
    /// The run that `at` lies in.
    std::size_t find(std::int64_t at) const {
      return static_cast<std::size_t>(std::upper_bound(begins.data(), begins.data() + count, at) -
                                      begins.data()) -
             1;
    }
    void erase(std::size_t from, std::size_t to) {
      if (from >= to) return;
      std::move(begins.data() + to, begins.data() + count, begins.data() + from);
      std::move(values.data() + to, values.data() + count, values.data() + from);
      count -= to - from;
    }
    /// Requires room.
    void insert(std::size_t place, std::int64_t begin, Value value) {
      std::move_backward(begins.data() + place, begins.data() + count, begins.data() + count + 1);
      std::move_backward(values.data() + place, values.data() + count, values.data() + count + 1);
      begins[place] = begin;
      values[place] = std::move(value);
      ++count;
    }
  };
  using Leaves = std::map<std::int64_t, Leaf>;  // by where their first run begins; none is empty

  template <class Some>
  static auto leaf_of(Some& leaves, std::int64_t at) {
    return std::prev(leaves.upper_bound(at));
  }

  template <class Some, class Visit>
  static void for_each_from(Some& leaves, std::int64_t begin, std::int64_t end, Visit&& visit) {
    auto leaf = leaf_of(leaves, begin);
    for (std::size_t i = leaf->second.find(begin); leaf != leaves.end(); ++leaf, i = 0)
      for (; i < leaf->second.count; ++i) {
        if (leaf->second.begins[i] >= end) return;
        visit(leaf->second.begins[i], leaf->second.values[i]);
      }
  }

  /// Lets a run begin at `at`.
  void split(std::int64_t at) {
    auto place = leaf_of(leaves_, at);
    if (place->second.begins[place->second.find(at)] == at) return;
    if (place->second.count == Leaf::most) {
      constexpr std::size_t half = Leaf::most / 2;
      Leaf& full = place->second;
      Leaf& upper = leaves_.emplace_hint(std::next(place), full.begins[half], Leaf())->second;
      std::move(full.begins.begin() + half, full.begins.end(), upper.begins.begin());
      std::move(full.values.begin() + half, full.values.end(), upper.values.begin());
      upper.count = Leaf::most - half;
      full.count = half;
      place = leaf_of(leaves_, at);
    }
    Leaf& leaf = place->second;
    const std::size_t run = leaf.find(at);
    leaf.insert(run + 1, at, leaf.values[run]);
  }

  Leaves leaves_;
};

}  // namespace fourfold
