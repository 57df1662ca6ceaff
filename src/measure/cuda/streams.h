// Kernels that only move memory, by which bandwidth is measured, and one that fills memory to
// measure on. Not of any op: those are in kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernels.h"

namespace fourfold::measure::cuda {

/// Random numbers between -1 and 1, f32 or bf16, the same in every run. `at` is 16-byte aligned.
void fill_random(std::byte* at, std::int64_t elements, DType dtype, float least,
                 kernels::cuda::Stream stream);

/// to[i] = from[i], f32. All are 16-byte aligned.
void copy(const float* from, std::int64_t elements, float* to, kernels::cuda::Stream stream);

/// a[i] = b[i] + scale c[i], f32 (McCalpin's STREAM triad). All are 16-byte aligned.
void triad(const float* b, const float* c, float scale, std::int64_t elements, float* a,
           kernels::cuda::Stream stream);

}  // namespace fourfold::measure::cuda
