// GELU and its derivative of one element, as cpu/gelu.h states them.
#pragma once

#include <cmath>

#include "kernels/cuda/device.cuh"
#include "kernels/elementwise.h"

namespace fourfold::kernels::cuda {

inline constexpr float gelu_slope = 1.5957691216057308F;  // 2 sqrt(2 / pi)
inline constexpr float gelu_cubic = 0.044715F;

/// exp(-2 |u|), u = sqrt(2 / pi) (x + 0.044715 x^3).
__device__ inline float gelu_tail(float x) {
  return expf(-fabsf(gelu_slope * x * (1 + gelu_cubic * (x * x))));
}

/// x / (1 + exp(-2 u)).
__device__ inline float gelu(float x) {
  const float tail = gelu_tail(x);
  return (x < 0 ? x * tail : x) / (1 + tail);
}

/// With gate = (1 + tanh(u)) / 2:  gate + x gate (1 - gate) 2 du/dx. By a GPU's fast functions: an
/// error of a few 2^-24 (1 + |u|) of the larger of gate and 1 - gate; a kernel with the exact ones
/// waits for arithmetic, not for memory.
__device__ inline float gelu_derivative(float x) {
  constexpr float log2_e = 1.4426950408889634F;
  const float tail = exp2_approximate(-log2_e * fabsf(gelu_slope * x * (1 + gelu_cubic * (x * x))));
  const float upper = reciprocal_approximate(1 + tail);
  const float gate = x < 0 ? tail * upper : upper;
  const float slope = gelu_slope + 3 * gelu_slope * gelu_cubic * (x * x);
  return gate + (x * slope) * (tail * upper * upper);
}

/// The functions of a GPU, for kernels/elementwise.h.
struct Math : StandardMath {};

__device__ inline float element(Math, const op::Gelu&, float x) {
  return gelu(x);
}
__device__ inline float element(Math, const op::GeluGradient&, float x, float y_grad) {
  return y_grad * gelu_derivative(x);
}

}  // namespace fourfold::kernels::cuda
