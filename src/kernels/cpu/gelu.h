// GELU and its derivative for one element, to be called in loops that become vector code; so they
// are always inlined, into however many loops.
// Hendrycks, Gimpel 2016 (arXiv:1606.08415), section 2, the approximation with tanh:
//   gelu(x) = x (1 + tanh(u)) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3)
// written with tail = exp(-2 |u|), which neither overflows nor cancels.
#pragma once

#include <cmath>
#include <numbers>

#include "kernels/cpu/math.h"
#include "kernels/elementwise.h"

namespace fourfold::kernels::cpu {

inline constexpr double gelu_slope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
inline constexpr double gelu_cubic = 0.044715;

/// exp(-2 |u|), through a power of two: its factor is in the constants.
template <class T>
[[gnu::always_inline]] inline T gelu_tail(T x) {
  constexpr double linear = gelu_slope * std::numbers::log2e;
  const T exponent = x * (static_cast<T>(linear) + static_cast<T>(linear * gelu_cubic) * (x * x));
  return exp2_flushed(-std::abs(exponent));
}

/// 1 / (1 + tail) for a tail from 0 to 1. With AVX-512 in half the time of a division: it begins
/// with the polynomial p of degree 2 whose largest 1 - (1 + tail) p is least, 1 / 99 (a Chebyshev
/// polynomial, which p leaves of 1); each round of Newton's squares that. Shorter vectors are
/// divided by the CPU beside its multiplications: GELU takes a fifth less time so (Zen 3).
template <class T>
[[gnu::always_inline]] inline T gelu_share(T tail) {
#ifdef __AVX512F__
  T share = T{98} / 99 + tail * (T{-80} / 99 + tail * (T{32} / 99));
  constexpr int rounds = sizeof(T) == sizeof(double) ? 4 : 2;  // 2^-106, 2^-26
  for (int round = 0; round < rounds; ++round) share += share * (1 - (1 + tail) * share);
  return share;
#else
  return 1 / (1 + tail);
#endif
}

/// x / (1 + exp(-2 u)).
template <class T>
[[gnu::always_inline]] inline T gelu(T x) {
  const T tail = gelu_tail(x);
  return (x < 0 ? x * tail : x) * gelu_share(tail);
}

/// With gate = (1 + tanh(u)) / 2:  gate + x gate (1 - gate) 2 du/dx.
template <class T>
[[gnu::always_inline]] inline T gelu_derivative(T x) {
  const T tail = gelu_tail(x);
  const T upper = gelu_share(tail);
  const T gate = x < 0 ? tail * upper : upper;
  const T slope =
      static_cast<T>(gelu_slope) + static_cast<T>(3 * gelu_slope * gelu_cubic) * (x * x);
  return gate + (x * slope) * (tail * upper * upper);
}

template <class T>
[[gnu::always_inline]] inline T element(Math, const op::Gelu&, T x) {
  return gelu(x);
}
template <class T>
[[gnu::always_inline]] inline T element(Math, const op::GeluGradient&, T x, T y_grad) {
  return y_grad * gelu_derivative(x);
}

}  // namespace fourfold::kernels::cpu
