// Sums and maxima over the buffers of several ranks that lie in the memory of one device: what
// comm/reduce.h is on the host. No ranks, and no order of streams. Compiles without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/reduction.h"
#include "kernels/cuda/kernels.h"

namespace fourfold::kernels::cuda {

/// As many terms and as many results as a launch takes: their addresses are parameters of the
/// kernel.
inline constexpr std::size_t most_members = 64;

/// For each of `count` elements: reduces terms[0], terms[1], ... in this order (bf16 in float,
/// rounded once) and writes the result to all of `results`, which may be the same buffers or
/// others, not ones that overlap by part. A NaN among the terms gives a NaN. The bits are those of
/// comm::reduce. Enqueues one kernel; nothing where there are no elements.
/// Cost: reads each term and writes each result once.
void reduce_members(std::span<const std::byte* const> terms, std::span<std::byte* const> results,
                    std::int64_t count, DType type, Reduction reduction, Stream stream);

}  // namespace fourfold::kernels::cuda
