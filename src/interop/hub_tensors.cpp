#include "interop/hub_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace fourfold::interop {
namespace {

/// The dims of ours that theirs has.
Shape shape_of_cut(const HubTensor& tensor) {
  Shape shape = tensor.our_shape;
  if (tensor.count > 0) shape[tensor.dim] = tensor.count;
  return shape;
}

/// The cut as a matrix.
Shape matrix_of(const HubTensor& tensor) {
  const Shape cut = shape_of_cut(tensor);
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim < tensor.transposed_rows; ++dim) rows *= cut[dim];
  return {rows, cut.elements() / rows};
}

/// Calls visit(place in ours, place in the cut, length), in bytes, for each run of bytes that the
/// cut and ours have in common.
template <class Visit>
void for_each_run(const HubTensor& tensor, std::size_t element_bytes, Visit visit) {
  std::int64_t outer = 1, inner = 1;
  for (std::size_t dim = 0; dim < tensor.our_shape.rank(); ++dim)
    if (dim != tensor.dim) (dim < tensor.dim ? outer : inner) *= tensor.our_shape[dim];
  const auto pitch = static_cast<std::size_t>(tensor.our_shape[tensor.dim] * inner) * element_bytes,
             first = static_cast<std::size_t>(tensor.first * inner) * element_bytes,
             length = static_cast<std::size_t>(tensor.count * inner) * element_bytes;
  for (std::size_t row = 0; row < static_cast<std::size_t>(outer); ++row)
    visit(row * pitch + first, row * length, length);
}

}  // namespace

std::vector<std::byte> taken_out(const HubTensor& tensor, std::vector<std::byte> ours,
                                 std::size_t element_bytes) {
  std::vector<std::byte> cut;
  if (tensor.count == 0) {
    cut = std::move(ours);
  } else {
    cut.resize(static_cast<std::size_t>(shape_of_cut(tensor).elements()) * element_bytes);
    for_each_run(tensor, element_bytes, [&](std::size_t from, std::size_t to, std::size_t length) {
      std::memcpy(cut.data() + to, ours.data() + from, length);
    });
  }
  if (tensor.transposed_rows > 0) cut = transposed(cut, matrix_of(tensor), element_bytes);
  return cut;
}

void put_in(const HubTensor& tensor, std::vector<std::byte> theirs, std::span<std::byte> ours,
            std::size_t element_bytes) {
  if (tensor.transposed_rows > 0) {
    const Shape matrix = matrix_of(tensor);
    theirs = transposed(theirs, {matrix[1], matrix[0]}, element_bytes);
  }
  if (tensor.count == 0) {
    require(theirs.size() == ours.size(), "a tensor has the bytes of its shape");
    std::ranges::copy(theirs, ours.begin());
    return;
  }
  for_each_run(tensor, element_bytes, [&](std::size_t to, std::size_t from, std::size_t length) {
    std::memcpy(ours.data() + to, theirs.data() + from, length);
  });
}

std::vector<std::byte> transposed(const std::vector<std::byte>& matrix, const Shape& shape_RC,
                                  std::size_t element_bytes) {
  require(shape_RC.rank() == 2, "a matrix has two dims");
  const auto rows = static_cast<std::size_t>(shape_RC[0]),
             columns = static_cast<std::size_t>(shape_RC[1]);
  require(matrix.size() == rows * columns * element_bytes, "a matrix has the bytes of its shape");
  constexpr std::size_t tile = 64;  // both sides of a tile stay in the cache
  std::vector<std::byte> result(matrix.size());
  for (std::size_t row_0 = 0; row_0 < rows; row_0 += tile)
    for (std::size_t column_0 = 0; column_0 < columns; column_0 += tile)
      for (std::size_t row = row_0; row < std::min(rows, row_0 + tile); ++row)
        for (std::size_t column = column_0; column < std::min(columns, column_0 + tile); ++column)
          std::memcpy(result.data() + (column * rows + row) * element_bytes,
                      matrix.data() + (row * columns + column) * element_bytes, element_bytes);
  return result;
}

}  // namespace fourfold::interop
