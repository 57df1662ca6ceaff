// Exponentials that the compiler turns into vector code: no branches, no tables, no calls. Not a
// general libm: only what the kernels need (GELU's tanh is written with exp, see elementwise.cpp).
//
// Error: at most 2 ulp over the whole range, subnormal results included
// (tests/numerics/math_test.cpp). exp(-inf) = 0, exp(x) = inf beyond overflow, exp(NaN) = NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace fourfold::kernels::cpu {

/// x = n ln 2 + r with |r| <= ln 2 / 2; exp(x) = 2^n exp(r), 2^n as two factors so that subnormal
/// results round once. exp(r) by Cephes' polynomial of degree 7 (Moshier, expf.c).
inline float exp_of(float x) {
  constexpr float log2_e = 0x1.715476p+0F;
  constexpr float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;  // high: n * high is exact
  constexpr float round_shift = 0x1.8p23F;  // adding it rounds to an integer held in the low bits
  float bounded = x < -104.F ? -104.F : x;  // exp(-104) rounds to 0; NaN stays
  bounded = bounded > 89.F ? 89.F : bounded;
  const float shifted = bounded * log2_e + round_shift;
  const float n = shifted - round_shift;
  const float r = (bounded - n * ln2_high) - n * ln2_low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float result = 1.F + (r + r * r * p);
  const std::uint32_t biased =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(round_shift) + 256U;
  const std::uint32_t half = biased >> 1;
  return result * std::bit_cast<float>((half - 1U) << 23) *
         std::bit_cast<float>((biased - half - 1U) << 23);
}

/// As above; exp(r) by its Taylor polynomial of degree 13, whose remainder is below 2^-57.
inline double exp_of(double x) {
  constexpr double log2_e = 0x1.71547652b82fep+0;
  constexpr double ln2_high = 6.93147180369123816490e-01,
                   ln2_low = 1.90821492927058770002e-10;  // fdlibm
  constexpr double round_shift = 0x1.8p52;
  double bounded = x < -746. ? -746. : x;
  bounded = bounded > 710. ? 710. : bounded;
  const double shifted = bounded * log2_e + round_shift;
  const double n = shifted - round_shift;
  const double r = (bounded - n * ln2_high) - n * ln2_low;
  double p = 1. / 6227020800.;
  p = p * r + 1. / 479001600.;
  p = p * r + 1. / 39916800.;
  p = p * r + 1. / 3628800.;
  p = p * r + 1. / 362880.;
  p = p * r + 1. / 40320.;
  p = p * r + 1. / 5040.;
  p = p * r + 1. / 720.;
  p = p * r + 1. / 120.;
  p = p * r + 1. / 24.;
  p = p * r + 1. / 6.;
  p = p * r + 0.5;
  const double result = 1. + (r + r * r * p);
  const std::uint64_t biased =
      std::bit_cast<std::uint64_t>(shifted) - std::bit_cast<std::uint64_t>(round_shift) + 2048U;
  const std::uint64_t half = biased >> 1;
  return result * std::bit_cast<double>((half - 1U) << 52) *
         std::bit_cast<double>((biased - half - 1U) << 52);
}

}  // namespace fourfold::kernels::cpu
