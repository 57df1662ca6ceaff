// The arithmetic of reductions over buffers that lie side by side in one address space. No ranks.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/reduction.h"

namespace fourfold::comm {

/// For every byte offset in [begin, end), whole elements: reduces terms[0], terms[1], ... in this
/// order (bf16 in float, rounded once) and writes the result to all of `results`, which may be the
/// same buffers or others, not ones that overlap by part. A NaN among the terms gives a NaN.
/// Cost: reads each term and writes each result once; no allocation.
void reduce(std::span<const std::byte* const> terms, std::span<std::byte* const> results,
            std::size_t begin, std::size_t end, DType type, Reduction reduction);

/// into[i] = reduction of into[i] and with[i] for `count` elements; bf16 in float, rounded.
void reduce_into(const std::byte* with, std::byte* into, std::size_t count, DType type,
                 Reduction reduction);

}  // namespace fourfold::comm
