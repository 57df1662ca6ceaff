// Puts a kernel on a stream. Not the kernels' arguments: device.cuh gathers those.
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// Enqueues a kernel that begins with begin_kernel(), `arguments` pointing to one argument each.
/// With FOURFOLD_EARLY_LAUNCH=1 in the environment, and where the current device can (compute
/// capability 9.0), its blocks take their places while the kernel before it on the stream ends: a
/// programmatic dependent launch (CUDA C++ Programming Guide), which graphs keep when they are
/// captured. On two H200 steps were 0 to 0.8 % shorter, and weights equal to the bit: not enough to
/// do it unasked (tests/bench/results/gpu.md).
void launch_kernel(const void* kernel, const LaunchShape& shape, Stream stream, void** arguments);

}  // namespace fourfold::kernels::cuda
