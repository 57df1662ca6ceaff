// The vectorisable elementary functions: their stated error over all numbers, subnormals included,
// and their extremes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/math.h"

namespace fourfold::kernels::cpu {
namespace {

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Distance in units of the last place of `exact`, subnormals included; huge where one is infinite
/// or NaN and the other is not.
template <class T>
double ulps(T got, long double exact) {
  const T nearest = static_cast<T>(exact);
  if (std::isnan(nearest) || std::isinf(nearest))
    return got == nearest || (std::isnan(got) && std::isnan(nearest)) ? 0 : 1e300;
  const long double unit =
      std::abs(nearest) < std::numeric_limits<T>::min()
          ? static_cast<long double>(std::numeric_limits<T>::denorm_min())
          : std::ldexp(static_cast<long double>(std::numeric_limits<T>::epsilon()),
                       std::ilogb(nearest));
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) / unit);
}

/// The largest error of `function`, and where.
template <class T>
struct Worst {
  double ulps = 0;
  T x = 0;
  void meet(double error, T at) {
    if (!(error <= ulps)) ulps = error, x = at;
  }
};

/// Meets each of about a million numbers spread over all bit patterns (any sign, any exponent, NaN)
/// and as many in [-limit, limit].
template <class T, class Visit>
void visit_numbers(T limit, Visit visit) {
  constexpr Bits<T> step = static_cast<Bits<T>>(-1) / 1000003;
  Bits<T> pattern = 0;
  do {
    visit(std::bit_cast<T>(pattern));
    pattern += step;
  } while (pattern >= step);
  for (int i = -500000; i <= 500000; ++i) visit(limit * static_cast<T>(i) / T{500000});
  for (const T x : {T{0}, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::max(),
                    std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(),
                    std::numeric_limits<T>::quiet_NaN()}) {
    visit(x);
    visit(-x);
  }
}

template <class T, class Function, class Exact>
void expect_two_ulps(T limit, Function function, Exact exact) {
  Worst<T> worst;
  visit_numbers<T>(
      limit, [&](T x) { worst.meet(ulps(function(x), exact(static_cast<long double>(x))), x); });
  EXPECT_LE(worst.ulps, 2) << "at " << worst.x << " in " << sizeof(T) << " bytes: got "
                           << function(worst.x);
}

template <class T>
class ElementaryFunctions : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(ElementaryFunctions, Types);

TYPED_TEST(ElementaryFunctions, exp_is_within_two_ulp) {
  using T = TypeParam;
  const auto exact = [](long double x) { return std::exp(x); };
  for (const T limit : {T{1}, sizeof(T) == 4 ? T{104} : T{746}})
    expect_two_ulps<T>(limit, [](T x) { return exp_of(x); }, exact);
}

TYPED_TEST(ElementaryFunctions, exp2_flushed_is_within_two_ulp_and_small_where_exp2_is_subnormal) {
  using T = TypeParam;
  constexpr T least = std::numeric_limits<T>::min(), above = sizeof(T) == 4 ? T{127} : T{1023};
  Worst<T> worst;
  for (const T limit : {T{1}, above + 3})
    visit_numbers<T>(limit, [&](T x) {
      if (x >= above) return;
      const long double exact = std::exp2(static_cast<long double>(x));
      const T got = exp2_flushed(x);
      if (exact >= static_cast<long double>(least) || std::isnan(x))
        worst.meet(ulps(got, exact), x);
      else
        EXPECT_TRUE(got >= 0 && got <= least) << x << " gives " << got;
    });
  EXPECT_LE(worst.ulps, 2) << "at " << worst.x;
  EXPECT_EQ(exp2_flushed(-std::numeric_limits<T>::infinity()), T{0});
  EXPECT_EQ(exp2_flushed(T{0}), T{1});
}

TYPED_TEST(ElementaryFunctions, log_is_within_two_ulp) {
  using T = TypeParam;
  const auto exact = [](long double x) { return std::log(x); };
  for (const T limit : {T{2}, T{1e6}})
    expect_two_ulps<T>(limit, [](T x) { return log_of(x); }, exact);
}

TYPED_TEST(ElementaryFunctions, tanh_is_within_two_ulp) {
  using T = TypeParam;
  const auto exact = [](long double x) { return std::tanh(x); };
  for (const T limit : {T{1}, T{20}})
    expect_two_ulps<T>(limit, [](T x) { return tanh_of(x); }, exact);
}

}  // namespace
}  // namespace fourfold::kernels::cpu
