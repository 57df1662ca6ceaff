#include "verify/content.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <string_view>

namespace fourfold::verify {
namespace {

/// Hashes the attributes of a row, as its `fields` visits them.
class AttributeHash {
 public:
  explicit AttributeHash(const op::Op& op) : hash_(op.index()) {
    op::for_each_place(op, [&](const op::Place& place, const auto&) {
      if (place.told == op::Place::Told::first) of_rank_.push_back(place.attribute);
    });
  }
  std::uint64_t hash() const { return hash_; }

  template <class T>
  void operator()(std::string_view name, const T& value) {
    if (name != "accumulate" && std::ranges::find(of_rank_, name) == of_rank_.end()) add(value);
  }

 private:
  void add(std::uint64_t value) { hash_ = mixed(hash_, value); }
  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }
  void add(bool value) { add(std::uint64_t{value}); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(const RandomStream& value) { add(value.id); }
  void add(const Shape& value) {
    add(value.rank());
    for (const std::int64_t size : value) add(size);
  }
  void add(const op::Numbers& value) {
    add(std::uint64_t{value.size()});
    for (const double number : value) add(number);
  }
  /// Micro-batch and chunk do not count, nor where they begin: rule part knows that.
  void add(const op::SampleWindow& value) { add(value.samples); }
  void add(const op::TensorWindow& value) { add(value.global); }

  std::uint64_t hash_;
  std::vector<std::string_view> of_rank_;  // attributes that rule part knows, too
};

}  // namespace

std::uint64_t hash_of(const op::Op& op) {
  AttributeHash hash(op);
  op::visit_row([&]<class Row>(const Row& row) { op::for_each_attribute(row, hash); }, op);
  return hash.hash();
}

ValueId Contents::add(Value value) {
  values_.push_back(value);
  if (value.origin == 0) values_.back().origin = static_cast<std::uint32_t>(values_.size() - 1);
  return ValueId(values_.size() - 1);
}

ValueId Contents::one(std::uint64_t kind, std::uint64_t inputs, std::optional<std::size_t> micro) {
  Value value;
  value.content = {kind, inputs, 1};
  if (micro) value.micro = static_cast<std::uint32_t>(*micro);
  return add(value);
}

ValueId Contents::sum(ValueId a, ValueId b) {
  const Value &left = values_[a.index()], &right = values_[b.index()];
  if (a == zero()) return b;
  if (b == zero()) return a;
  Value both;
  both.left = static_cast<std::uint32_t>(a.index());
  both.right = static_cast<std::uint32_t>(b.index());
  both.is_faulty = left.is_faulty || right.is_faulty;
  both.is_over_micros = left.is_over_micros || right.is_over_micros ||
                        (left.has_micro() && right.has_micro() && left.micro != right.micro);
  if (both.is_over_micros) return add(both);
  both.micro = left.has_micro() ? left.micro : right.micro;
  both.content = left.content;
  both.content += right.content;
  return add(both);
}

std::optional<ValueId> Contents::accumulate(ValueId to, ValueId term) {
  if (to == zero()) return term;
  const Value &old = values_[to.index()], &added = values_[term.index()];
  const Value& first = values_[old.origin];
  const std::uint64_t micro = added.has_micro() ? std::uint64_t{added.micro} + 1 : 0;
  const bool again = first.content.kinds == added.content.kinds && first.micro == added.micro;
  if (again || !accumulated_.insert(mixed(mixed(old.origin, added.content.kinds), micro)))
    return std::nullopt;
  const std::uint32_t origin = old.origin;
  const ValueId result = sum(to, term);
  values_[result.index()].origin = origin;
  return result;
}

std::optional<Contents::Gap> Contents::complete(ValueId id) {
  Value& value = values_[id.index()];
  if (!value.is_over_micros) return std::nullopt;
  std::vector<Content> of_micro(micros_);
  Content of_none;
  // The parts of a value have smaller numbers than it, so the largest is done with all its uses.
  std::map<std::size_t, std::uint64_t, std::greater<>> open = {{id.index(), 1}};
  while (!open.empty()) {
    const auto [index, times] = *open.begin();
    open.erase(open.begin());
    const Value& sum = values_[index];
    if (sum.is_over_micros) {
      open[sum.left] += times;
      open[sum.right] += times;
    } else {
      (sum.has_micro() ? of_micro[sum.micro] : of_none) += sum.content.times(times);
    }
  }
  std::map<std::uint64_t, std::size_t> votes;  // how many micro-batches have these kinds
  std::size_t usual = 0;
  for (std::size_t micro = 0; micro < micros_; ++micro)
    if (++votes[of_micro[micro].kinds] > votes[of_micro[usual].kinds]) usual = micro;
  std::optional<Gap> gap;
  for (std::size_t micro = 0; micro < micros_ && !gap; ++micro)
    if (of_micro[micro] != of_micro[usual]) gap = Gap{usual, micro, 0};
  if (gap) gap->kind = of_micro[gap->has].kinds - of_micro[gap->lacks].kinds;
  value.content = of_micro[usual];
  value.content += of_none;
  value.is_over_micros = false;
  value.is_faulty = value.is_faulty || gap.has_value();
  return gap;
}

std::optional<std::vector<std::uint64_t>> Contents::first_kinds(ValueId id) {
  std::vector<std::uint64_t> kinds;
  std::set<std::size_t> seen;
  std::vector<std::size_t> open = {id.index()};
  while (!open.empty()) {
    const std::size_t index = open.back();
    open.pop_back();
    const Value& value = values_[index];
    if ((value.has_micro() && value.micro != 0) || !seen.insert(index).second) continue;
    if (++looked_at_ > 8 * values_.size()) return std::nullopt;
    if (value.right == 0) {
      kinds.push_back(value.content.kinds);
    } else {
      open.push_back(value.left);
      open.push_back(value.right);
    }
  }
  return kinds;
}

}  // namespace fourfold::verify
