// A kernel for tests of the emulation itself (missing_barrier.cpp).
#pragma once

#include <cstdint>

namespace fourfold::numerics {

enum class Barrier : std::uint8_t { there, missing };

/// Turns 64 numbers around by way of shared memory.
void reverse_64(int* values, Barrier barrier);

}  // namespace fourfold::numerics
