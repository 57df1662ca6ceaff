// Where a box lies in the memory of a rank: runs of bytes. Not buffers: what they are offsets into
// the caller knows.
#pragma once

#include <cstdint>
#include <vector>

#include "reshard/box.h"

namespace fourfold::reshard {

/// `rows` runs of `row_bytes`, each `pitch_bytes` after the one before; the terms of a slice of a
/// program, without its buffer.
struct Slice {
  std::int64_t offset_bytes = 0, rows = 1, row_bytes = 0, pitch_bytes = 0;
  bool operator==(const Slice&) const = default;

  std::int64_t bytes() const { return rows * row_bytes; }
};

/// The elements of `box`, in its order, in a row-major array of shape `stored` whose first element
/// is the first of `local`; `stored` is the shape of `local`, or larger by padding at the ends of
/// dims. One slice where the box breaks two dims of the array at most, else one for each index of
/// the outer broken dims; none for an empty box. The pitch of a single row is its length.
/// Requires `local` to contain `box`.
std::vector<Slice> slices_of(const Box& box, const Box& local, const Shape& stored,
                             std::int64_t element_bytes);
/// The same without padding.
std::vector<Slice> slices_of(const Box& box, const Box& local, std::int64_t element_bytes);

}  // namespace fourfold::reshard
