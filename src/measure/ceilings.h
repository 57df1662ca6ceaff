// What this machine can do at best: the rates beside which a step, an op or a run is judged.
// Measured in a moment on the threads asked for, never read from a data sheet; not a benchmark of
// our own kernels (see kernel_bench.h).
//
// Memory holds 3 x 64 MiB for bandwidth and 3 x 4 MiB (f32) for products while they run. A busy
// machine gives less: each is the best of many short stretches.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "kernels/kernel.h"

namespace fourfold::measure {

/// The product of two square matrices.
kernels::Problem square_product(std::int64_t size, DType dtype, int threads);

/// Best rate, in floating-point operations a second, of a library's product of square matrices
/// (those of kernels::cpu::contract_libraries; n = 1024, warm) over about `seconds` on `threads`
/// threads. f32, f64 and bf16. Each library makes two products at least, the first of which warms
/// up.
double measure_gemm_flops_per_s(DType dtype, int threads, double seconds);

/// Best rate, in bytes a second, of a[i] = b[i] + s c[i] over arrays of 64 MiB each (McCalpin's
/// STREAM triad): 24 bytes an element of f64, what the store reads first not counted.
double measure_triad_bytes_per_s(int threads, double seconds);

/// Best rate, in bytes a second, of a[i] = b[i] over arrays of 64 MiB each: 16 bytes an element.
double measure_copy_bytes_per_s(int threads, double seconds);

}  // namespace fourfold::measure
