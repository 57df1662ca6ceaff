// A mesh: a set of ranks arranged along named axes. Not a device description (machine/) and not a
// plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace fourfold {

/// A process of the job, counted from 0.
using Rank = Id<struct RankTag>;
/// A mesh of the plan, and an axis of one mesh (index into Mesh::axes).
using MeshId = Id<struct MeshTag>;
using AxisId = Id<struct AxisTag>;

struct Axis {
  std::string name;  // "data", "z", "y", "x"
  std::int64_t size = 1;
  bool operator==(const Axis&) const = default;
};

/// Ranks in an order. Ranks that grow by equal steps are three numbers, any others a list; one
/// sequence has one form, so that equality is that of the sequences.
class Ranks {
 public:
  Ranks() = default;
  Ranks(Rank first, std::size_t count, std::size_t step = 1)
      : first_(count == 0 ? Rank() : first), count_(count), step_(count < 2 ? 1 : step) {}
  Ranks(std::initializer_list<Rank> ranks) {
    for (const Rank rank : ranks) push_back(rank);
  }
  auto operator<=>(const Ranks&) const = default;

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Rank operator[](std::size_t position) const {
    return listed_.empty() ? Rank(first_.index() + position * step_) : listed_[position];
  }
  Rank front() const { return (*this)[0]; }
  /// Where a rank stands among them; nothing where it is none of them. Cost: constant, or linear
  /// for a list.
  std::optional<std::size_t> position(Rank rank) const {
    if (listed_.empty()) {
      if (rank.index() < first_.index()) return std::nullopt;
      const std::size_t way = rank.index() - first_.index(), position = way / step_;
      return way % step_ == 0 && position < count_ ? std::optional(position) : std::nullopt;
    }
    for (std::size_t i = 0; i < count_; ++i)
      if (listed_[i] == rank) return i;
    return std::nullopt;
  }
  bool has(Rank rank) const { return position(rank).has_value(); }
  /// `count` of them from a position on, each so many positions after the one before. Cost:
  /// constant, or linear for a list.
  Ranks range(std::size_t first, std::size_t count, std::size_t step = 1) const {
    if (listed_.empty()) return {Rank(first_.index() + first * step_), count, step * step_};
    Ranks some;
    for (std::size_t i = 0; i < count; ++i) some.push_back(listed_[first + i * step]);
    return some;
  }

  void push_back(Rank rank) {
    if (count_ == 0) {
      first_ = rank;
    } else if (count_ == 1 && rank > first_) {
      step_ = rank.index() - first_.index();
    } else if (!listed_.empty() || rank.index() != first_.index() + count_ * step_) {
      if (listed_.empty()) listed_ = std::vector<Rank>(begin(), end());
      listed_.push_back(rank);
      step_ = 1;
    }
    ++count_;
  }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Rank;
    using difference_type = std::ptrdiff_t;
    using pointer = const Rank*;
    using reference = Rank;
    Iterator(const Ranks& ranks, std::size_t at) : ranks_(&ranks), at_(at) {}
    Rank operator*() const { return (*ranks_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const Ranks* ranks_;
    std::size_t at_;
  };
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, count_}; }

 private:
  Rank first_;
  std::size_t count_ = 0, step_ = 1;  // a step of 1 where there are less than two, or a list
  std::vector<Rank> listed_;          // empty where the ranks grow by equal steps from first_
};

/// Ranks in row-major order of the axes: the last axis varies fastest.
struct Mesh {
  std::string name;
  std::vector<Axis> axes;
  Ranks ranks;  // as many as the product of the axis sizes
  bool operator==(const Mesh&) const = default;

  /// Coordinates of the i-th rank of the mesh, one per axis.
  std::vector<std::int64_t> coordinates(std::size_t position) const {
    std::vector<std::int64_t> result(axes.size());
    auto rest = static_cast<std::int64_t>(position);
    for (std::size_t axis = axes.size(); axis-- > 0;) {
      result[axis] = rest % axes[axis].size;
      rest /= axes[axis].size;
    }
    return result;
  }
  /// Coordinates of a rank; nothing where the mesh does not have it.
  std::optional<std::vector<std::int64_t>> coordinates_of(Rank rank) const {
    const auto position = ranks.position(rank);
    return position ? std::optional(coordinates(*position)) : std::nullopt;
  }
};

}  // namespace fourfold
