// A conversion carried out on an array of numbers for each rank, by what each kind of collective
// does. It knows who owns an element from the definition of a cut alone. Header only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "compile/conversion_path.h"
#include "unit/compile/conversion_cases.h"

namespace fourfold::compile {

struct Array {
  Shape shape;
  std::vector<std::int64_t> data;
};

inline std::int64_t offset(const Shape& shape, const std::vector<std::int64_t>& index) {
  std::int64_t place = 0;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) place = place * shape[dim] + index[dim];
  return place;
}

inline void for_each_index(const Shape& shape, auto&& visit) {
  std::vector<std::int64_t> index(shape.rank(), 0);
  for (std::int64_t left = shape.elements(); left > 0; --left) {
    visit(index);
    for (std::size_t dim = shape.rank(); dim-- > 0 && ++index[dim] == shape[dim];) index[dim] = 0;
  }
}

class ArraysOnRanks {
 public:
  explicit ArraysOnRanks(const ConversionCase& c) : c_(c), state_(c.from) {
    for (std::size_t rank = 0; rank < c.mesh.ranks.size(); ++rank) {
      Array array{local_shape(c.from), {}};
      for_each_index(array.shape, [&](const auto& local) {
        const auto element = global(c.from, rank, local);
        array.data.push_back(element ? term(*element, rank) : garbage(rank));
      });
      arrays_.push_back(std::move(array));
    }
  }

  void run(const Conversion& step) {
    std::vector<Array> next;
    for (std::size_t rank = 0; rank < arrays_.size(); ++rank) {
      const std::vector<std::size_t> members = members_along(rank, step.axes);
      const auto own =
          static_cast<std::size_t>(c_.mesh.coordinates(rank)[step.axes.front().index()]);
      if (step.kind == OwnMove::slice) {
        next.push_back(block(arrays_[rank], step, own));
        EXPECT_EQ(next.back().shape, op::local_shape(c_.shape, step.after, c_.mesh));
        continue;
      }
      switch (step.kind.collective().value()) {
        case Collective::all_reduce:
          next.push_back(reduced(members, step.reduction));
          break;
        case Collective::reduce_scatter:
          next.push_back(block(reduced(members, step.reduction), step, own));
          break;
        case Collective::all_gather: {
          std::vector<Array> parts;
          for (const std::size_t member : members) parts.push_back(arrays_[member]);
          next.push_back(joined(parts, step.dim, local_shape(step.after)[step.dim]));
          break;
        }
        case Collective::all_to_all: {
          std::vector<Array> parts;
          for (const std::size_t member : members)
            parts.push_back(block(arrays_[member], step, own));
          next.push_back(joined(parts, step.from_dim, local_shape(step.after)[step.from_dim]));
        }
      }
      EXPECT_EQ(next.back().shape, op::local_shape(c_.shape, step.after, c_.mesh));
    }
    arrays_ = std::move(next);
    state_ = step.after;
  }

  std::vector<std::size_t> members_along(std::size_t rank, const std::vector<AxisId>& axes) const {
    std::vector<std::size_t> members = {rank};
    for (const AxisId axis : axes) {
      std::vector<std::size_t> more;
      for (const std::size_t member : members)
        for (const std::size_t other : members_of(member, axis)) more.push_back(other);
      members = more;
    }
    return members;
  }

  /// Elements that differ from the tensor, whose terms are still to be reduced where `to` is
  /// partial.
  std::size_t num_wrong() const {
    std::size_t wrong = 0;
    for (std::size_t rank = 0; rank < arrays_.size(); ++rank) {
      std::vector<AxisId> open;
      for (const op::Partial& partial : c_.to.partial) open.push_back(partial.axis);
      const std::vector<std::size_t> terms = members_along(rank, open);
      const Array total =
          c_.to.partial.empty() ? arrays_[rank] : reduced(terms, c_.to.partial[0].reduction);
      for_each_index(total.shape, [&](const auto& local) {
        const auto element = global(c_.to, rank, local);
        const auto got = total.data[static_cast<std::size_t>(offset(total.shape, local))];
        if (element && got != value(*element)) ++wrong;
      });
    }
    return wrong;
  }

 private:
  static std::int64_t value(std::int64_t element) { return element * 37 % 101 + 3; }
  static std::int64_t garbage(std::size_t rank) {
    return 1'000'003 * (static_cast<std::int64_t>(rank) + 1);
  }

  std::int64_t size(AxisId axis) const { return c_.mesh.axes[axis.index()].size; }

  /// The stride of every cut of a dim, stated or not.
  std::vector<std::int64_t> strides(const op::Sharding& state, std::size_t dim) const {
    std::vector<std::int64_t> list;
    std::int64_t left = c_.shape[dim];
    for (const op::Cut& cut : cuts_of(state, dim)) {
      left = cut.stride.value_or((left + size(cut.axis) - 1) / size(cut.axis));
      list.push_back(left);
    }
    return list;
  }

  Shape local_shape(const op::Sharding& state) const {
    Shape shape = c_.shape;
    for (std::size_t dim = 0; dim < shape.rank(); ++dim)
      if (const auto list = strides(state, dim); !list.empty()) shape[dim] = list.back();
    return shape;
  }

  /// The element of the tensor at a place of a rank's array; none in padding.
  std::optional<std::int64_t> global(const op::Sharding& state, std::size_t rank,
                                     std::vector<std::int64_t> index) const {
    const auto coordinates = c_.mesh.coordinates(rank);
    for (std::size_t dim = 0; dim < index.size(); ++dim) {
      const Cuts cuts = cuts_of(state, dim);
      const auto list = strides(state, dim);
      for (std::size_t i = 0; i < cuts.size(); ++i)
        index[dim] += coordinates[cuts[i].axis.index()] * list[i];
      if (index[dim] >= c_.shape[dim]) return std::nullopt;
      for (std::size_t i = 0; i < cuts.size(); ++i)
        EXPECT_EQ(index[dim] / list[i] % size(cuts[i].axis), coordinates[cuts[i].axis.index()])
            << "owner = (index / stride) mod n";
    }
    return offset(c_.shape, index);
  }

  /// This rank's term of an element: together they are its value.
  std::int64_t term(std::int64_t element, std::size_t rank) const {
    const auto coordinates = c_.mesh.coordinates(rank);
    std::int64_t own = 0, count = 1;
    for (const op::Partial& partial : c_.from.partial) {
      own = own * size(partial.axis) + coordinates[partial.axis.index()];
      count *= size(partial.axis);
    }
    const auto other = [&](std::int64_t i) { return (element * 13 + i * 29) % 97; };
    if (c_.from.partial.empty()) return value(element);
    if (c_.from.partial[0].reduction == op::Reduction::max)
      return own == element % count ? value(element) : value(element) - 1 - other(own);
    std::int64_t rest = value(element);
    for (std::int64_t i = 1; i < count; ++i) rest -= other(i);
    return own == 0 ? rest : other(own);
  }

  /// Ranks that differ on one axis only, in its order.
  std::vector<std::size_t> members_of(std::size_t rank, AxisId axis) const {
    auto mine = c_.mesh.coordinates(rank);
    std::vector<std::size_t> members;
    for (std::size_t other = 0; other < c_.mesh.ranks.size(); ++other) {
      auto theirs = c_.mesh.coordinates(other);
      theirs[axis.index()] = mine[axis.index()];
      if (theirs == mine) members.push_back(other);
    }
    return members;
  }

  Array reduced(const std::vector<std::size_t>& members, op::Reduction reduction) const {
    Array result = arrays_[members[0]];
    for (std::size_t m = 1; m < members.size(); ++m)
      for (std::size_t i = 0; i < result.data.size(); ++i) {
        const std::int64_t term = arrays_[members[m]].data[i];
        result.data[i] = reduction == op::Reduction::sum ? result.data[i] + term
                                                         : std::max(result.data[i], term);
      }
    return result;
  }

  /// Member `own`'s block of a dim; what lies beyond the array is padding.
  Array block(const Array& whole, const Conversion& step, std::size_t own) const {
    Array part{whole.shape, {}};
    part.shape[step.dim] = local_shape(step.after)[step.dim];
    for_each_index(part.shape, [&](std::vector<std::int64_t> index) {
      index[step.dim] += static_cast<std::int64_t>(own) * part.shape[step.dim];
      const bool is_padding = index[step.dim] >= whole.shape[step.dim];
      part.data.push_back(is_padding
                              ? garbage(own)
                              : whole.data[static_cast<std::size_t>(offset(whole.shape, index))]);
    });
    return part;
  }

  /// Arrays one after another along a dim, of which `length` indices are kept.
  static Array joined(const std::vector<Array>& parts, std::size_t dim, std::int64_t length) {
    Array whole{parts[0].shape, {}};
    whole.shape[dim] = length;
    const std::int64_t part = parts[0].shape[dim];
    EXPECT_GE(part * static_cast<std::int64_t>(parts.size()), length);
    for_each_index(whole.shape, [&](std::vector<std::int64_t> index) {
      const Array& from = parts[static_cast<std::size_t>(index[dim] / part)];
      index[dim] %= part;
      whole.data.push_back(from.data[static_cast<std::size_t>(offset(from.shape, index))]);
    });
    return whole;
  }

  const ConversionCase& c_;
  op::Sharding state_;
  std::vector<Array> arrays_;
};

}  // namespace fourfold::compile
