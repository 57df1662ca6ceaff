// A stored tensor in slices of a column each, all of which begin in row 0. Header only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/manifest.h"

namespace fourfold::checkpoint {

inline StoredTensor tensor_of_columns(std::int64_t columns) {
  StoredTensor tensor{"t", DType::f32, {4, columns}, 0, {}};
  for (std::int64_t j = 0; j < columns; ++j) tensor.slices.push_back({0, {{0, j}, {4, 1}}});
  return tensor;
}

/// Two of three columns begin below row 0 then, which leaves gaps.
inline void make_columns_short(StoredTensor& tensor) {
  for (std::int64_t j = 0; j < tensor.shape[1]; ++j)
    tensor.slices[static_cast<std::size_t>(j)].box = {{j % 3, j}, {4 - j % 3, 1}};
}

}  // namespace fourfold::checkpoint
