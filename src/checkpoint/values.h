// Loops over dense values as fast as memory brings them: digests, and whether all are finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/random.h"

namespace fourfold::checkpoint {

/// Sum mod 2^64 of digest_term over values of which the first has index `first`. Requires a type of
/// state: floating point or i64.
std::uint64_t digest_of_values(DType dtype, RandomStream stream, std::int64_t first,
                               std::span<const std::byte> bytes);

/// True if no number is infinite or NaN; counts always are finite.
bool is_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace fourfold::checkpoint
