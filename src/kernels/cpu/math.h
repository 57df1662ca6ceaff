// Elementary functions that the compiler turns into vector code: no branches, no tables, no calls;
// call them in loops under `#pragma omp simd`, into which they are always inlined. Not a general
// libm: only what the kernels need.
//
// Error: at most 2 ulp over the whole range, subnormal arguments and results included
// (tests/numerics/math_test.cpp), with and without fused multiply-add. Extremes are those of
// std::exp, std::log and std::tanh; NaN gives NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "kernels/standard_math.h"

namespace fourfold::kernels::cpu {

/// An exponential before its power of two: exp(x) = 2^n (1 + q), |q| < 0.42. `shifted` holds n in
/// its low bits, as a number to which n was added.
template <class T>
struct ReducedExp {
  T shifted, q;
};

inline constexpr float exp_shift_f32 = 0x1.8p23F;  // adding it rounds to an integer in the low bits
inline constexpr double exp_shift_f64 = 0x1.8p52;

/// x = n ln 2 + r, |r| <= 0.3475; q = exp(r) - 1 = r + r^2 p(r), p of degree 4 with an error of
/// 2^-26 (Sollya's fpminimax). Requires |x| < 2^22.
[[gnu::always_inline]] inline ReducedExp<float> reduced_exp(float x) {
  constexpr float log2_e = 0x1.715476p+0F;
  constexpr float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;  // high: n * high is exact
  const float shifted = x * log2_e + exp_shift_f32;
  const float n = shifted - exp_shift_f32;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float p = 0x1.6d4ea6p-10F;
  p = p * r + 0x1.120c8ep-7F;
  p = p * r + 0x1.5554e8p-5F;
  p = p * r + 0x1.5554dcp-3F;
  p = p * r + 0.5F;
  return {shifted, r + r * r * p};
}

/// As above with p of degree 9 and an error of 2^-55.
[[gnu::always_inline]] inline ReducedExp<double> reduced_exp(double x) {
  constexpr double log2_e = 0x1.71547652b82fep+0;
  constexpr double ln2_high = 6.93147180369123816490e-01,
                   ln2_low = 1.90821492927058770002e-10;  // fdlibm
  const double shifted = x * log2_e + exp_shift_f64;
  const double n = shifted - exp_shift_f64;
  const double r = (x - n * ln2_high) - n * ln2_low;
  double p = 0x1.af628bc1ed0f9p-26;
  p = p * r + 0x1.2892a3e41f69bp-22;
  p = p * r + 0x1.71ddf72531798p-19;
  p = p * r + 0x1.a019b80d6948p-16;
  p = p * r + 0x1.a01a01afd4ae9p-13;
  p = p * r + 0x1.6c16c178d46fdp-10;
  p = p * r + 0x1.111111110f8bp-7;
  p = p * r + 0x1.5555555553c81p-5;
  p = p * r + 0x1.5555555555558p-3;
  p = p * r + 0x1.0000000000001p-1;
  return {shifted, r + r * r * p};
}

/// exp(x). 2^n in two factors, 2^64 or 2^-64 the second, so that subnormal results round once.
[[gnu::always_inline]] inline float exp_of(float x) {
  const auto [shifted, q] = reduced_exp(x);
  // 2^30 where x has no sign: 128 in the place of the exponent.
  const std::uint32_t up = (~std::bit_cast<std::uint32_t>(x) >> 1) & (1U << 30);
  const auto power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) +
                                          ((127U + 64U) << 23) - up);
  const float result = (power + power * q) * std::bit_cast<float>(((127U - 64U) << 23) + up);
  const float above = x < -104.F ? 0.F : result;  // exp(-104) rounds to 0
  return x > 89.F ? std::numeric_limits<float>::infinity() : above;
}
[[gnu::always_inline]] inline double exp_of(double x) {
  const auto [shifted, q] = reduced_exp(x);
  constexpr std::uint64_t one = 1;
  const std::uint64_t up = (~std::bit_cast<std::uint64_t>(x) >> 4) & (one << 59);
  const auto power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) << 52) +
                                           ((one * 1023 + 64) << 52) - up);
  const double result = (power + power * q) * std::bit_cast<double>(((one * 1023 - 64) << 52) + up);
  const double above = x < -746. ? 0. : result;
  return x > 710. ? std::numeric_limits<double>::infinity() : above;
}

/// Below these 2^x is taken as 0. Defined in math.cpp and not known here: a compiler that knows the
/// bound makes two paths of it, joined by masks that the multipliers compute (15 % slower).
extern const float exp2_least_f32;
extern const double exp2_least_f64;

/// 2^x for x < 127, but 0 where that is below the least normal number: for softmax and gates, in
/// half the time of exp_of. x = n + f is exact; 2^f by a polynomial of degree 6 with an error of
/// 2^-27 (Sollya's fpminimax).
[[gnu::always_inline]] inline float exp2_flushed(float x) {
  constexpr float shift = exp_shift_f32 + 127.F;  // so that n comes out as the bits of 2^n
  const float bounded = x < exp2_least_f32 ? exp2_least_f32 : x;
  const float shifted = bounded + shift;
  const float f = bounded - (shifted - shift);
  float p = 0x1.442512p-13F;
  p = p * f + 0x1.5ef5dp-10F;
  p = p * f + 0x1.3b2a48p-7F;
  p = p * f + 0x1.c6af9cp-5F;
  p = p * f + 0x1.ebfbep-3F;
  p = p * f + 0x1.62e43p-1F;
  p = p * f + 1.F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(shifted) << 23) * p;
}
/// As above for x < 1023, with degree 11 and an error of 2^-56.
[[gnu::always_inline]] inline double exp2_flushed(double x) {
  constexpr double shift = exp_shift_f64 + 1023.;
  const double bounded = x < exp2_least_f64 ? exp2_least_f64 : x;
  const double shifted = bounded + shift;
  const double f = bounded - (shifted - shift);
  double p = 0x1.ec6b62822310bp-32;
  p = p * f + 0x1.e60595a88c4ap-28;
  p = p * f + 0x1.b52335e6fe7d5p-24;
  p = p * f + 0x1.62bfd4df40b7ep-20;
  p = p * f + 0x1.ffcbfd479e5bap-17;
  p = p * f + 0x1.4309130944095p-13;
  p = p * f + 0x1.5d87fe787493ap-10;
  p = p * f + 0x1.3b2ab6fba1ec4p-7;
  p = p * f + 0x1.c6b08d704a1d3p-5;
  p = p * f + 0x1.ebfbdff82c598p-3;
  p = p * f + 0x1.62e42fefa39efp-1;
  p = p * f + 1.;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(shifted) << 52) * p;
}

/// exp(x) for x < 88 (708 in f64), roughly, through exp2_flushed: the rounding of x log2(e) adds
/// |x| / 2 ulp. A term of a softmax, x = score - largest, has that much from its subtraction
/// anyway.
template <class T>
T exp_flushed(T x) {
  return exp2_flushed(x * static_cast<T>(std::numbers::log2e));
}

/// log(x): x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) by Cephes' polynomial
/// (Moshier, logf.c).
[[gnu::always_inline]] inline float log_of(float x) {
  constexpr std::uint32_t root_half = 0x3F3504F3U;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const bool tiny = x < std::numeric_limits<float>::min();
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(tiny ? x * 0x1p25F : x) - root_half;
  const float n = static_cast<float>(static_cast<std::int32_t>(bits) >> 23) - (tiny ? 25.F : 0.F);
  const float f = std::bit_cast<float>((bits & 0x7FFFFFU) + root_half) - 1.F;
  const float square = f * f;
  float p = 7.0376836292e-2F;
  p = p * f - 1.1514610310e-1F;
  p = p * f + 1.1676998740e-1F;
  p = p * f - 1.2420140846e-1F;
  p = p * f + 1.4249322787e-1F;
  p = p * f - 1.6668057665e-1F;
  p = p * f + 2.0000714765e-1F;
  p = p * f - 2.4999993993e-1F;
  p = p * f + 3.3333331174e-1F;
  const float tail = f * square * p - 2.12194440e-4F * n - 0.5F * square;
  const float finite = (f + tail) + 0.693359375F * n;
  const float above_zero = x < infinity ? finite : x;  // infinity and NaN stay
  const float at_least_zero = x == 0 ? -infinity : above_zero;
  return x < 0 ? std::numeric_limits<float>::quiet_NaN() : at_least_zero;
}

/// As above; log(1 + f) from s = f / (2 + f), as fdlibm's e_log.c.
[[gnu::always_inline]] inline double log_of(double x) {
  constexpr std::uint64_t root_half = 0x3FE6A09E667F3BCDU;
  constexpr std::uint64_t mantissa = (std::uint64_t{1} << 52) - 1;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool tiny = x < std::numeric_limits<double>::min();
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(tiny ? x * 0x1p54 : x) - root_half;
  // n through the low bits of a double: AVX2 converts no 64-bit integers.
  const std::uint64_t exponent = (bits + (std::uint64_t{1} << 62)) >> 52;  // n + 1024
  const double n = std::bit_cast<double>(exponent + std::bit_cast<std::uint64_t>(0x1p52)) -
                   (tiny ? 0x1p52 + 1024 + 54 : 0x1p52 + 1024);
  const double f = std::bit_cast<double>((bits & mantissa) + root_half) - 1;
  const double s = f / (2 + f), z = s * s, w = z * z, half_square = 0.5 * f * f;
  const double odd = w * (3.999999999940941908e-01 +
                          w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double even = z * (6.666666666666735130e-01 +
                           w * (2.857142874366239149e-01 +
                                w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double low = s * (half_square + odd + even) + n * 1.90821492927058770002e-10;
  const double finite = n * 6.93147180369123816490e-01 - ((half_square - low) - f);
  const double above_zero = x < infinity ? finite : x;
  const double at_least_zero = x == 0 ? -infinity : above_zero;
  return x < 0 ? std::numeric_limits<double>::quiet_NaN() : at_least_zero;
}

/// tanh(x): Cephes' odd polynomial (tanhf.c) up to 0.625, beyond it 1 - 2 / (1 + exp(2 |x|)).
[[gnu::always_inline]] inline float tanh_of(float x) {
  const float size = std::abs(x), square = x * x;
  float p = -5.70498872745e-3F;
  p = p * square + 2.06390887954e-2F;
  p = p * square - 5.37397155531e-2F;
  p = p * square + 1.33314422036e-1F;
  p = p * square - 3.33332819422e-1F;
  const float large = std::copysign(1 - 2 / (1 + exp_of(2 * size)), x);
  return size > 0.625F ? large : x + x * (square * p);
}

/// As above with Cephes' quotient of polynomials (tanh.c).
[[gnu::always_inline]] inline double tanh_of(double x) {
  const double size = std::abs(x), square = x * x;
  const double p = (-9.64399179425052238628e-1 * square - 9.92877231001918586564e1) * square -
                   1.61468768441708447952e3;
  const double q =
      ((square + 1.12811678491632931402e2) * square + 2.23548839060100448583e3) * square +
      4.84406305325125486048e3;
  const double large = std::copysign(1 - 2 / (1 + exp_of(2 * size)), x);
  return size > 0.625 ? large : x + x * (square * (p / q));
}

/// These functions, for kernels/elementwise.h; loops with those that are not here run without
/// vectors.
struct Math : StandardMath {
  template <class T>
  static T exp(T x) {
    return exp_of(x);
  }
  template <class T>
  static T log(T x) {
    return log_of(x);
  }
  template <class T>
  static T tanh(T x) {
    return tanh_of(x);
  }
};

}  // namespace fourfold::kernels::cpu
