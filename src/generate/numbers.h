// Numbers of a buffer as doubles, and back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace fourfold::generate {

/// Requires f32, f64 or bf16.
std::vector<double> numbers_of(std::span<const std::byte> bytes, DType dtype);
/// Rounds each number to the type of the buffer, whose bytes are as many as the numbers take.
void store_numbers(std::span<const double> numbers, DType dtype, std::span<std::byte> into);

}  // namespace fourfold::generate
