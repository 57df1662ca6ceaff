// What one element of each row of op/elementwise.h is, written once for all backends: T is the type
// of sums (float or double; also std::uint64_t for rows that take integers), Math the elementary
// functions that a backend has. A backend that knows a faster way overloads `element` for its own
// Math; such a way has the bound of this one.
#pragma once

#include <numbers>

#include "kernels/standard_math.h"
#include "op/elementwise.h"

namespace fourfold::kernels {

/// sqrt(2/pi) (x + 0.044715 x^3); Hendrycks, Gimpel 2016, section 2.
template <class T>
FOURFOLD_CUDA T gelu_argument(T x) {
  constexpr double root_two_over_pi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return static_cast<T>(root_two_over_pi) * (x + static_cast<T>(0.044715) * x * x * x);
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math math, const op::Gelu&, T x) {
  return x / 2 * (1 + math.tanh(gelu_argument(x)));
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math math, const op::GeluGradient&, T x, T y_grad) {
  constexpr double root_two_over_pi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const T u = gelu_argument(x);
  const T u_derivative =
      static_cast<T>(root_two_over_pi) * (1 + 3 * static_cast<T>(0.044715) * x * x);
  const T sech = 1 / math.cosh(u);  // 1 - tanh^2 without its cancellation
  return y_grad * ((1 + math.tanh(u)) / 2 + x / 2 * sech * sech * u_derivative);
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math math, const op::Silu&, T x) {
  return x / (1 + math.exp(-x));
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math math, const op::SiluGradient&, T x, T y_grad) {
  // Both from one exponential that does not overflow: 1 - s is not 1 minus what is nearly 1.
  const T e = math.exp(x < 0 ? x : -x);
  const T near = 1 / (1 + e), far = e / (1 + e);
  const T s = x < 0 ? far : near, rest = x < 0 ? near : far;
  return y_grad * s * (1 + x * rest);
}

/// Written so that NaN is neither above nor below.
template <class Math, class T>
FOURFOLD_CUDA T element(Math, const op::Relu&, T x) {
  return x < 0 ? T{0} : x;
}

/// NaN passes no gradient on as if it were above or below.
template <class Math, class T>
FOURFOLD_CUDA T element(Math, const op::ReluGradient&, T y, T y_grad) {
  const T otherwise = y <= 0 ? T{0} : y;
  return y > 0 ? y_grad : otherwise;
}

/// The storing rounds.
template <class Math, class T>
FOURFOLD_CUDA T element(Math, const op::Cast&, T x) {
  return x;
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math, const op::Widen&, T x) {
  return x;
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math, const op::Add&, T a, T b) {
  return a + b;
}

template <class Math, class T>
FOURFOLD_CUDA T element(Math, const op::AddRounded&, T a, T b) {
  return a + b;
}

}  // namespace fourfold::kernels
