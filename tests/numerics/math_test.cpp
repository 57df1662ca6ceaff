// The vectorisable exponential: its stated error over its whole range, and its extremes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/math.h"

namespace fourfold::kernels::cpu {
namespace {

/// Distance in units of the last place of `exact`, subnormals included.
template <class T>
double ulps(T got, long double exact) {
  const T nearest = static_cast<T>(exact);
  const long double unit =
      std::abs(nearest) < std::numeric_limits<T>::min()
          ? static_cast<long double>(std::numeric_limits<T>::denorm_min())
          : std::ldexp(static_cast<long double>(std::numeric_limits<T>::epsilon()),
                       std::ilogb(nearest));
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) / unit);
}

template <class T>
double worst_ulps(T low, T high, int count) {
  double worst = 0;
  for (int i = 0; i <= count; ++i) {
    const T x = low + (high - low) * static_cast<T>(i) / static_cast<T>(count);
    worst = std::max(worst, ulps(exp_of(x), std::exp(static_cast<long double>(x))));
  }
  return worst;
}

TEST(ExpOf, is_within_two_ulp_over_the_whole_range) {
  EXPECT_LE(worst_ulps(-103.9F, 88.7F, 3000000), 2);
  EXPECT_LE(worst_ulps(-1.F, 1.F, 1000000), 2);
  EXPECT_LE(worst_ulps(-745., 709.7, 1000000), 2);
  EXPECT_LE(worst_ulps(-1., 1., 1000000), 2);
}

template <class T>
void expect_extremes() {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  EXPECT_EQ(exp_of(T{0}), T{1});
  EXPECT_EQ(exp_of(T{1000}), infinity);
  EXPECT_EQ(exp_of(infinity), infinity);
  EXPECT_EQ(exp_of(-infinity), T{0});
  EXPECT_EQ(exp_of(T{-1000}), T{0});
  EXPECT_EQ(exp_of(std::numeric_limits<T>::max()), infinity);
  EXPECT_EQ(exp_of(std::numeric_limits<T>::lowest()), T{0});
  EXPECT_TRUE(std::isnan(exp_of(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp_of(-std::numeric_limits<T>::quiet_NaN())));
}

TEST(ExpOf, extremes_are_those_of_exp) {
  expect_extremes<float>();
  expect_extremes<double>();
}

}  // namespace
}  // namespace fourfold::kernels::cpu
