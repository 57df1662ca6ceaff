#include "verify/box.h"

#include <algorithm>

namespace fourfold::verify {
namespace {

/// The index in each dim of the element that stands at a place of a row-major tensor.
std::vector<std::int64_t> index_at(const Shape& shape, std::int64_t place) {
  std::vector<std::int64_t> index(shape.rank(), 0);
  for (std::size_t dim = shape.rank(); dim-- > 0;) {
    index[dim] = place % shape[dim];
    place /= shape[dim];
  }
  return index;
}

/// The slice that covers a box, or nothing where its runs are not evenly apart.
std::optional<Slice> slice_of(const Shape& local, const Box& box, BufferId id,
                              std::int64_t element_bytes) {
  Slice slice{id, 0, 1, element_bytes, 0};
  std::int64_t stride_bytes = element_bytes;
  for (std::size_t dim = local.rank(); dim-- > 0; stride_bytes *= local[dim]) {
    slice.offset_bytes += box.first[dim] * stride_bytes;
    if (box.count[dim] == 1) continue;
    if (slice.rows == 1 && stride_bytes == slice.row_bytes) {
      slice.row_bytes *= box.count[dim];
    } else if (slice.rows == 1) {
      slice.rows = box.count[dim];
      slice.pitch_bytes = stride_bytes;
    } else if (stride_bytes == slice.rows * slice.pitch_bytes) {
      slice.rows *= box.count[dim];
    } else {
      return std::nullopt;
    }
  }
  return slice;
}

}  // namespace

std::optional<Box> box_of(const Program& program, const Slice& slice) {
  const Shape local = program.local_shape(slice.buffer);
  const std::int64_t element = size_bytes(program.buffer(slice.buffer).dtype);
  const auto first = index_at(local, slice.offset_bytes / element),
             last = index_at(local, slice.end_bytes() / element - 1);
  Box box{first, {}};
  for (std::size_t dim = 0; dim < local.rank(); ++dim) {
    if (last[dim] < first[dim]) return std::nullopt;
    box.count.push_back(last[dim] - first[dim] + 1);
  }
  Slice joined = slice;  // rows that touch are one
  if (slice.rows == 1 || slice.pitch_bytes == slice.row_bytes)
    joined = {slice.buffer, slice.offset_bytes, 1, slice.bytes(), 0};
  if (slice_of(local, box, slice.buffer, element) != joined) return std::nullopt;
  return box;
}

std::vector<std::int64_t> sizes_without_padding(Claims& claims, BufferId id) {
  const Shape local = claims.program().local_shape(id);
  const Shape& global = claims.program().buffer(id).global;
  std::vector<std::int64_t> sizes;
  for (std::size_t dim = 0; dim < local.rank(); ++dim)
    sizes.push_back(std::clamp<std::int64_t>(global[dim] - claims.first(id, dim), 0, local[dim]));
  return sizes;
}

bool is_padding(Claims& claims, BufferId id, std::int64_t begin_bytes, std::int64_t end_bytes) {
  const std::vector<std::int64_t> sizes = sizes_without_padding(claims, id);
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  const Shape local = claims.program().local_shape(id);
  const std::int64_t element = size_bytes(claims.program().buffer(id).dtype);
  // The first element from `begin_bytes` on that is not padding: where the index is padding in some
  // dim, the next one that is not begins that dim and all further ones anew.
  std::vector<std::int64_t> index = index_at(local, begin_bytes / element);
  for (std::size_t dim = 0; dim < index.size(); ++dim) {
    if (index[dim] < sizes[dim]) continue;
    std::fill(index.begin() + static_cast<std::ptrdiff_t>(dim), index.end(), 0);
    std::size_t outer = dim;
    while (outer-- > 0) {
      if (++index[outer] < sizes[outer]) break;
      index[outer] = 0;
    }
    if (outer == static_cast<std::size_t>(-1)) return true;  // there is none
    break;
  }
  std::int64_t place = 0;
  for (std::size_t dim = 0; dim < index.size(); ++dim) place = place * local[dim] + index[dim];
  return place * element >= end_bytes;
}

}  // namespace fourfold::verify
