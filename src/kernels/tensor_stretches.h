// Which elements of a global tensor a local part holds, as stretches that lie side by side in both.
// Not a copy of anything: kernels that count global elements walk their memory with it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "kernels/on_device.h"
#include "op/ops.h"

namespace fourfold::kernels {

/// The local tensor as rows of `columns` contiguous elements, trailing dims that are not cut being
/// part of a row. A whole tensor is one row, so walking it costs nothing. Plain data, so that CUDA
/// kernels take it as it is.
class TensorStretches {
 public:
  /// An empty `part`: the local tensor is the whole one.
  TensorStretches(const op::TensorWindow& part, const Shape& local) {
    const auto size = [&](std::size_t dim) {
      return part.global.rank() == 0 ? local[dim] : part.global[dim];
    };
    const auto first = [&](std::size_t dim) {
      return part.first.rank() == 0 ? 0 : part.first[dim];
    };
    std::size_t dim = local.rank();
    std::int64_t stride = 1;
    while (dim > 0 && size(dim - 1) == local[dim - 1] && first(dim - 1) == 0) stride *= size(--dim);
    columns_ = real_columns_ = stride;
    // The innermost cut dim still lies side by side.
    if (dim > 0) {
      --dim;
      real_columns_ = stride * std::clamp<std::int64_t>(size(dim) - first(dim), 0, local[dim]);
      columns_ = stride * local[dim];
      first_ = stride * first(dim);
      stride *= size(dim);
    }
    while (dim-- > 0) {
      require(outer_count_ < outer_.size(), "a tensor that is cut has at most eight dims");
      outer_[outer_count_++] = {local[dim], size(dim) - first(dim), stride};
      first_ += stride * first(dim);
      stride *= size(dim);
    }
  }

  /// Walks local elements [begin, end) in order: real(local, global, count) for stretches of the
  /// global tensor, padding(local, count) for the rest. `local` and `global` are row-major indices.
  template <class Real, class Padding>
  void walk(std::int64_t begin, std::int64_t end, Real&& real, Padding&& padding) const {
    while (begin < end) {
      const std::int64_t row = begin / columns_, column = begin % columns_;
      const std::int64_t row_end = std::min(end, begin - column + columns_);
      const Place place = place_of(row);
      const std::int64_t real_end =
          place.real ? std::clamp(begin - column + real_columns_, begin, row_end) : begin;
      if (begin < real_end)
        real(begin, static_cast<std::uint64_t>(place.first + column), real_end - begin);
      if (real_end < row_end) padding(real_end, row_end - real_end);
      begin = row_end;
    }
  }

  /// True if the local tensor of so many elements is all that there is.
  bool is_whole(std::int64_t elements) const {
    return outer_count_ == 0 && first_ == 0 && columns_ == elements && real_columns_ == elements;
  }

  /// Where one element lies in the global tensor; not `real`: it is padding.
  struct Place {
    std::int64_t first;
    bool real;
  };
  FOURFOLD_CUDA Place element(std::int64_t local) const {
    const std::int64_t row = local / columns_, column = local % columns_;
    const Place place = place_of(row);
    return {place.first + column, place.real && column < real_columns_};
  }

 private:
  /// A dim outside the rows.
  struct Outer {
    std::int64_t local, real, stride;
  };
  FOURFOLD_CUDA Place place_of(std::int64_t row) const {
    Place place{first_, true};
    for (std::size_t i = 0; i < outer_count_; ++i) {  // innermost first
      const Outer& dim = outer_[i];
      const std::int64_t index = row % dim.local;
      row /= dim.local;
      place.first += index * dim.stride;
      place.real = place.real && index < dim.real;
    }
    return place;
  }

  std::int64_t columns_ = 1, real_columns_ = 1, first_ = 0;
  std::array<Outer, 7> outer_{};
  std::size_t outer_count_ = 0;
};

}  // namespace fourfold::kernels
