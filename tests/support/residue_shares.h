// Rows of the op table over residues, computed by ranks that share their factors. Header only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/residue_tensors.h"

namespace fourfold::op {

inline std::size_t number_of_reads(const Op& op) {
  return static_cast<std::size_t>(std::ranges::count(operands(op), Role::read, &Operand::role));
}

/// A cut of one factor, as it cuts the operands of a row.
class FactorCut {
 public:
  /// Where an element of a share has no place in the whole.
  static constexpr std::int64_t padding = -1;
  /// The indices in the whole of what a share has along each dim.
  using Indices = std::vector<std::vector<std::int64_t>>;

  /// `shapes` are those of all operands.
  FactorCut(const Op& op, const std::vector<Shape>& shapes, char factor)
      : rule_(factors(op, std::span(shapes).first(number_of_reads(op)))),
        shapes_(shapes),
        factor_(factor) {
    for (std::size_t i = 0; i < number_of_reads(op); ++i)
      is_of_reads_ = is_of_reads_ || has_factor(i);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      for (std::size_t dim = 0; dim < shapes[i].rank(); ++dim)
        if (const auto factors = rule_.operands[i][dim]; factors.size() == 1)
          rule_.sizes[factors[0]] = shapes[i][dim];
  }

  const FactorRule& rule() const { return rule_; }
  std::int64_t size() const { return rule_.sizes.at(factor_); }
  bool has_factor(std::size_t operand) const {
    return rule_.operands[operand].letters().find(factor_) != std::string::npos;
  }
  /// True if the values of an output, on ranks that share the factor, are terms of one.
  bool is_reduced(std::size_t operand) const {
    return !has_factor(operand) && rule_.repeated.find(factor_) == std::string::npos &&
           is_of_reads_;
  }
  /// True if it cuts this dim.
  bool cuts(std::size_t operand, std::size_t dim) const {
    return rule_.operands[operand][dim].find(factor_) != std::string_view::npos;
  }
  /// What the share [begin, end) of the factor has of an operand: from size() on there is padding.
  Indices indices(std::size_t operand, std::int64_t begin, std::int64_t end) const {
    Indices all;
    for (std::size_t dim = 0; dim < shapes_[operand].rank(); ++dim) {
      std::vector<std::int64_t>& list = all.emplace_back();
      const bool is_cut = cuts(operand, dim);
      const std::int64_t inside = is_cut ? size_inside(rule_.operands[operand][dim]) : 1;
      for (std::int64_t i = 0; i < shapes_[operand][dim]; ++i)
        if (const std::int64_t digit = i / inside % size();
            !is_cut || (begin <= digit && digit < end))
          list.push_back(i);
      if (is_cut && end > size())
        list.resize(list.size() + static_cast<std::size_t>(end - size()), padding);
    }
    return all;
  }

 private:
  /// The product of the sizes of the factors inside of the one that is cut.
  std::int64_t size_inside(std::string_view factors) const {
    std::int64_t size = 1;
    for (const char inner : factors.substr(factors.find(factor_) + 1))
      size *= rule_.sizes.at(inner);
    return size;
  }

  FactorRule rule_;
  std::vector<Shape> shapes_;
  char factor_;
  bool is_of_reads_ = false;
};

/// Calls body(index in the share, index in the whole or padding) for all elements of a share.
template <class Body>
void for_each_of_share(const Shape& whole, const FactorCut::Indices& indices, Body body) {
  std::vector<std::int64_t> places = {0};
  for (std::size_t dim = 0; dim < indices.size(); ++dim) {
    std::vector<std::int64_t> finer;
    for (const std::int64_t outer : places)
      for (const std::int64_t i : indices[dim])
        finer.push_back(outer < 0 || i < 0 ? FactorCut::padding : outer * whole[dim] + i);
    places = std::move(finer);
  }
  for (std::size_t i = 0; i < places.size(); ++i) body(i, places[i]);
}

/// What one rank has of a tensor; its padding holds anything.
inline OwnTensor share_of(const OwnTensor& whole, const FactorCut::Indices& indices, Draw& draw) {
  Shape shape;
  for (const auto& dim : indices) shape.push_back(std::ssize(dim));
  OwnTensor share = draw.tensor(shape, whole.is_integer);
  for_each_of_share(whole.shape, indices, [&](std::size_t i, std::int64_t place) {
    if (place >= 0) share.elements[i] = whole.elements[static_cast<std::size_t>(place)];
  });
  return share;
}

/// Tells an op, by its places, which shares of its operands a rank has.
class Telling {
 public:
  Telling(const std::vector<Shape>& wholes, const std::vector<FactorCut::Indices>& indices)
      : wholes_(wholes), indices_(indices) {}

  Op told(Op op) const {
    for_each_place(op, [&](const Place& place, auto& told) { tell(place, told); });
    return op;
  }

 private:
  std::int64_t first(std::size_t operand, std::size_t dim) const {
    return indices_[operand][dim].front();
  }
  std::int64_t local_size(std::size_t operand, std::size_t dim) const {
    return std::ssize(indices_[operand][dim]);
  }
  bool is_cut(std::size_t operand, std::size_t dim) const {
    const std::vector<std::int64_t>& indices = indices_[operand][dim];
    return std::ssize(indices) != wholes_[operand][dim] || indices.back() == FactorCut::padding;
  }

  void tell(const Place& place, std::int64_t& told) const {
    const std::size_t dim = place.dim_of(wholes_[place.operand]);
    if (place.told == Told::first) told += first(place.operand, dim);
    if (place.told == Told::local_size) told = local_size(place.operand, dim);
    const bool has_size =
        place.told == Told::size || (place.told == Told::size_if_cut && is_cut(place.operand, dim));
    if (has_size && told == 0) told = wholes_[place.operand][dim];
  }
  void tell(const Place& place, SampleWindow& told) const { told.first += first(place.operand, 0); }
  void tell(const Place& place, TensorWindow& told) const {
    const Shape& whole = wholes_[place.operand];
    const bool was_whole = told == TensorWindow{};
    for (std::size_t dim = place.dim; dim < whole.rank(); ++dim) {
      if (was_whole) {
        told.global.push_back(whole[dim]);
        told.first.push_back(0);
      }
      told.first[dim - place.dim] += first(place.operand, dim);
    }
  }
  void tell(const Place& place, Shape& told) const {
    told = {};
    for (const auto& dim : indices_[place.operand]) told.push_back(std::ssize(dim));
  }

  const std::vector<Shape>& wholes_;
  const std::vector<FactorCut::Indices>& indices_;
};

/// The same op where its operands are whole: its places say so.
inline Op told_whole(Op op, const std::vector<Shape>& shapes) {
  for_each_place(op, [&]<class T>(const Place& place, T& told) {
    if constexpr (std::is_same_v<T, TensorWindow>) told = {};
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (place.told == Told::first || place.told == Told::size_if_cut) told = 0;
      if (place.told == Told::size)
        told = shapes[place.operand][place.dim_of(shapes[place.operand])];
    }
  });
  return op;
}

/// True if the op knows what lies after the end of the factor as padding, and no other rank has it.
inline bool may_be_padded(const Op& op, const FactorCut& cut, const std::vector<Shape>& shapes) {
  bool may = false;
  std::int64_t first = 0;
  for_each_place(op, [&]<class T>(const Place& place, const T& told) {
    const Shape& shape = shapes[place.operand];
    if constexpr (std::is_same_v<T, TensorWindow>) {
      for (std::size_t dim = 0; dim < shape.rank() && place.dim == 0; ++dim)
        may = may || (cut.cuts(place.operand, dim) &&
                      (told == T{} || told.first[dim] + shape[dim] >= told.global[dim]));
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      if (place.told == Told::first) first = told;
      if (place.told != Told::size_if_cut) return;
      const std::size_t dim = place.dim_of(shape);
      may = may || (cut.cuts(place.operand, dim) && (told == 0 || first + shape[dim] >= told));
    }
  });
  return may;
}

/// The factors of a row that may be cut and have at least two elements.
inline std::string factors_to_cut(const Op& op, const std::vector<Shape>& shapes) {
  const FactorRule rule = factors(op, std::span(shapes).first(number_of_reads(op)));
  std::string list;
  for (const OperandFactors& operand : rule.operands)
    for (const char factor : operand.letters())
      if (!rule.is_whole(factor) && list.find(factor) == std::string::npos &&
          FactorCut(op, shapes, factor).size() > 1)
        list += factor;
  return list;
}

/// Rows computed in shares of a factor.
class Sharing {
 public:
  Sharing(const Residues& residues, Draw& draw) : residues_(residues), draw_(draw) {}

  /// Computes the row by 2 or 3 ranks that share the factor, and writes what their outputs join to.
  /// In place of each rank there may be ranks that share another factor, as often as `depth` says.
  void by_ranks(const Op& op, OwnTensors& all, char factor, int depth) {
    OwnTensors joined = all;
    for_each_share(op, all, factor, [&](const Op& own, const Share& share) {
      OwnTensors local = share_of_all(own, share, all);
      // One rank has the old value of a sum that is updated.
      for (std::size_t i = 0; i < all.size(); ++i)
        if (share.number > 0 && operands(op)[i].role == Role::update && share.cut.is_reduced(i))
          std::ranges::fill(local[i].elements, 0);
      compute_further(own, local, depth);
      for (std::size_t i = number_of_reads(op); i < all.size(); ++i)
        join(joined[i], local[i], share, i);
    });
    all = std::move(joined);
  }

  /// Computes the row by one rank, share after share; what all shares have, each of them but the
  /// first adds to.
  void by_turns(const Op& op, OwnTensors& all, char factor) {
    for_each_share(op, OwnTensors(all), factor, [&](const Op& own, const Share& share) {
      OwnTensors local = share_of_all(own, share, all);
      for (std::size_t i = 0; i < all.size(); ++i)
        if (!share.cut.has_factor(i)) local[i] = all[i];
      compute_whole(with_accumulate(own, share.number > 0), residues_, local);
      for (std::size_t i = number_of_reads(op); i < all.size(); ++i)
        if (share.cut.has_factor(i))
          place(all[i], local[i], share.indices[i]);
        else
          all[i] = local[i];
    });
  }

 private:
  struct Share {
    const FactorCut& cut;
    std::size_t number;
    std::vector<FactorCut::Indices> indices;  // by operand
  };

  /// Calls body(op, share) for 2 or 3 shares of the factor, with the op that computes each.
  template <class Body>
  void for_each_share(const Op& op, const OwnTensors& all, char factor, Body body) {
    const std::vector<Shape> shapes = shapes_of(all);
    const FactorCut cut(op, shapes, factor);
    const std::vector<std::int64_t> bounds =
        draw_bounds(cut.size(), may_be_padded(op, cut, shapes));
    for (std::size_t number = 0; number + 1 < bounds.size(); ++number) {
      Share share{cut, number, {}};
      for (std::size_t i = 0; i < all.size(); ++i)
        share.indices.push_back(cut.indices(i, bounds[number], bounds[number + 1]));
      body(Telling(shapes, share.indices).told(op), share);
    }
  }

  /// Where shares begin, and where the last one ends: after the factor, where it may be padded.
  std::vector<std::int64_t> draw_bounds(std::int64_t size, bool may_be_padded) {
    std::vector<std::int64_t> bounds = {0, size, 1 + draw_.below(size - 1),
                                        1 + draw_.below(size - 1)};
    std::ranges::sort(bounds);
    const auto [rest, end] = std::ranges::unique(bounds);
    bounds.erase(rest, end);
    if (may_be_padded) bounds.back() += draw_.below(3);
    return bounds;
  }

  /// A share of all operands before it is computed: what is only written holds anything.
  OwnTensors share_of_all(const Op& op, const Share& share, const OwnTensors& all) {
    const Operands list = operands(op);
    OwnTensors local;
    for (std::size_t i = 0; i < all.size(); ++i) {
      local.push_back(share_of(all[i], share.indices[i], draw_));
      if (list[i].role == Role::write) local[i] = draw_.tensor(local[i].shape, local[i].is_integer);
    }
    const std::vector<Shape> shapes = shapes_of(local);
    const auto reads = static_cast<std::ptrdiff_t>(number_of_reads(op));
    EXPECT_EQ(outputs(op, {shapes.begin(), shapes.begin() + reads}),
              std::vector(shapes.begin() + reads, shapes.end()));
    return local;
  }

  void compute_further(const Op& op, OwnTensors& local, int depth) {
    const std::string further = depth > 0 ? factors_to_cut(op, shapes_of(local)) : "";
    if (further.empty()) return compute_whole(op, residues_, local);
    by_ranks(op, local, further[static_cast<std::size_t>(draw_.below(std::ssize(further)))],
             depth - 1);
  }

  /// Writes a share into a tensor. There is 0 in padding.
  static void place(OwnTensor& whole, const OwnTensor& share, const FactorCut::Indices& indices) {
    for_each_of_share(whole.shape, indices, [&](std::size_t i, std::int64_t place) {
      if (place == FactorCut::padding)
        EXPECT_EQ(share.elements[i], 0U) << "padding";
      else
        whole.elements[static_cast<std::size_t>(place)] = share.elements[i];
    });
  }

  void join(OwnTensor& joined, const OwnTensor& local, const Share& share,
            std::size_t operand) const {
    if (share.cut.has_factor(operand)) return place(joined, local, share.indices[operand]);
    if (share.number == 0) {
      joined = local;
    } else if (!share.cut.is_reduced(operand)) {
      EXPECT_EQ(local, joined) << "all ranks have the same";
    } else {
      for (std::size_t i = 0; i < local.elements.size(); ++i)
        joined.elements[i] = reduced(joined.elements[i], local.elements[i], local.is_integer,
                                     share.cut.rule().reduction);
    }
  }
  Residue reduced(Residue a, Residue b, bool is_integer, Reduction reduction) const {
    if (reduction == Reduction::max) return residues_.larger(a, b);
    return is_integer ? a + b : add(a, b);
  }

  const Residues& residues_;
  Draw& draw_;
};

}  // namespace fourfold::op
