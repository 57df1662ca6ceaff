// A value for every address, kept as runs of equal history. Not a general container.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace fourfold {

/// Cost: logarithmic in the number of runs, plus the runs touched.
template <class Value>
class IntervalMap {
 public:
  explicit IntervalMap(const Value& initial) {
    runs_.emplace(std::numeric_limits<std::int64_t>::min(), initial);
  }

  /// Calls `visit(const Value&)` for every run that meets [begin, end).
  template <class Visit>
  void visit(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    visit_runs(begin, end, [&](std::int64_t, const Value& value) { visit(value); });
  }

  /// The same with where the run begins, which may be before `begin`.
  template <class Visit>
  void visit_runs(std::int64_t begin, std::int64_t end, Visit&& visit) const {
    for (auto run = std::prev(runs_.upper_bound(begin)); run != runs_.end() && run->first < end;
         ++run)
      visit(run->first, run->second);
  }

  /// Calls `change(Value&)` for every run of [begin, end), split off from what lies around it.
  template <class Change>
  void change(std::int64_t begin, std::int64_t end, Change&& change) {
    if (begin >= end) return;
    const auto first = split(begin);
    const auto last = split(end);
    for (auto run = first; run != last; ++run) change(run->second);
  }

  void assign(std::int64_t begin, std::int64_t end, const Value& value) {
    if (begin >= end) return;
    const auto first = split(begin);
    const auto last = split(end);
    runs_.erase(std::next(first), last);
    first->second = value;
  }

 private:
  typename std::map<std::int64_t, Value>::iterator split(std::int64_t at) {
    const auto next = runs_.lower_bound(at);
    if (next != runs_.end() && next->first == at) return next;
    return runs_.emplace_hint(next, at, std::prev(next)->second);
  }

  std::map<std::int64_t, Value> runs_;
};

}  // namespace fourfold
