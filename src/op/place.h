// What a rank has to be told about where its shares of the operands lie, as data beside the
// attributes: a row lists it once, in `places`, and whoever writes, checks or compares such
// attributes loops over that list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/shape.h"
#include "op/window.h"

namespace fourfold::op {

/// One attribute that follows from the shares of a rank, and from which dim of which operand.
struct Place {
  enum class Told : std::uint8_t {
    first,        // the index, in the whole tensor, of the first element that is here
    size,         // how many elements all ranks have
    size_if_cut,  // likewise, and 0 where the dim is whole on every rank
    local_size,   // how many elements are here
    local_shape,  // of the operand, the dim being unused
    samples,      // a SampleWindow over dim 0
    window        // a TensorWindow over the dims from this one on
  };
  Told told = Told::first;
  std::string_view attribute;
  std::size_t operand = 0;  // in the order of Row::operands
  std::size_t dim = 0;      // or counted from the end: last_dim - 1 is the last but one

  static constexpr std::size_t last_dim = std::numeric_limits<std::size_t>::max();
  std::size_t dim_of(const Shape& shape) const {
    constexpr std::size_t most_dims = 64;
    return dim > last_dim - most_dims ? shape.rank() - 1 - (last_dim - dim) : dim;
  }
  /// True if ranks of one program differ in it.
  bool differs_by_rank() const {
    return told == Told::first || told == Told::samples || told == Told::window;
  }
};

}  // namespace fourfold::op
