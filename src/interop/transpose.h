// A dense matrix turned around.
#pragma once

#include <cstddef>
#include <vector>

#include "base/shape.h"

namespace fourfold::interop {

/// (R, C) to (C, R), row-major, elements of so many bytes.
std::vector<std::byte> transposed(const std::vector<std::byte>& matrix, const Shape& shape_RC,
                                  std::size_t element_bytes);

}  // namespace fourfold::interop
