#include "interop/transpose.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace fourfold::interop {

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
