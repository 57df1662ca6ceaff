// Layer norm of one row of C channels and its gradient. One thread; sums in an order that depends
// on C alone, two passes for the variance. X is the type of x, T that of all else in memory.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/storage.h"

namespace fourfold::kernels::cpu {

template <class T>
struct RowStatistics {
  T mean, rstd;
};

/// y = (x - mean) rstd gain (+ bias); bias_C may be null.
template <class X, class T>
void normalise_row(const X* x_C, RowStatistics<Sum<T>> row, const T* gain_C, const T* bias_C,
                   std::int64_t channels, T* y_C) {
  const auto [mean, rstd] = row;
  if (bias_C == nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      store(y_C[c], (summed(x_C[c]) - mean) * rstd * summed(gain_C[c]));
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      store(y_C[c], (summed(x_C[c]) - mean) * rstd * summed(gain_C[c]) + summed(bias_C[c]));
  }
}

/// The sum of the squares of a row.
template <class X>
Sum<X> sum_of_squares(const X* x_C, std::int64_t channels) {
  Sum<X> squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < channels; ++c) squares += summed(x_C[c]) * summed(x_C[c]);
  return squares;
}

/// The same with the rstd of the row itself, which is not centred: its mean counts as 0.
template <class X, class T>
RowStatistics<Sum<T>> root_mean_square_row(const X* x_C, const T* gain_C, std::int64_t channels,
                                           double epsilon, T* y_C) {
  using S = Sum<T>;
  const S squares = sum_of_squares(x_C, channels);
  const S rstd = 1 / std::sqrt(squares / static_cast<S>(channels) + static_cast<S>(epsilon));
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c)
    store(y_C[c], summed(x_C[c]) * rstd * summed(gain_C[c]));
  return {0, rstd};
}

/// The same with the mean and the rstd of the row itself, which it returns.
template <class X, class T>
RowStatistics<Sum<T>> layer_norm_row(const X* x_C, const T* gain_C, const T* bias_C,
                                     std::int64_t channels, double epsilon, T* y_C) {
  using S = Sum<T>;
  S sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < channels; ++c) sum += summed(x_C[c]);
  const S mean = sum / static_cast<S>(channels);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < channels; ++c)
    squares += (summed(x_C[c]) - mean) * (summed(x_C[c]) - mean);
  const S rstd = 1 / std::sqrt(squares / static_cast<S>(channels) + static_cast<S>(epsilon));
  normalise_row(x_C, {mean, rstd}, gain_C, bias_C, channels, y_C);
  return {mean, rstd};
}

/// With n = (x - mean) rstd and d = y_grad gain:  x_grad = rstd (d - average(d) - n average(d n)).
/// x_grad may be y_grad.
template <class X, class T>
void layer_norm_gradient_row(const X* x_C, const T* gain_C, RowStatistics<Sum<T>> row,
                             const T* y_grad_C, std::int64_t channels, X* x_grad_C) {
  using S = Sum<T>;
  const auto [mean, rstd] = row;
  S sum = 0, sum_normal = 0;
#pragma omp simd reduction(+ : sum, sum_normal)
  for (std::int64_t c = 0; c < channels; ++c) {
    const S scaled = summed(y_grad_C[c]) * summed(gain_C[c]);
    sum += scaled;
    sum_normal += scaled * ((summed(x_C[c]) - mean) * rstd);
  }
  const S average = sum / static_cast<S>(channels);
  const S average_normal = sum_normal / static_cast<S>(channels);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c)
    store(x_grad_C[c], rstd * (summed(y_grad_C[c]) * summed(gain_C[c]) - average -
                               (summed(x_C[c]) - mean) * rstd * average_normal));
}

/// With n = x rstd and d = y_grad gain:  x_grad = rstd (d - n average(d n)), of a norm that is not
/// centred. x_grad may be y_grad.
template <class X, class T>
void root_mean_square_gradient_row(const X* x_C, const T* gain_C, Sum<T> rstd, const T* y_grad_C,
                                   std::int64_t channels, X* x_grad_C) {
  using S = Sum<T>;
  S sum_normal = 0;
#pragma omp simd reduction(+ : sum_normal)
  for (std::int64_t c = 0; c < channels; ++c)
    sum_normal += summed(y_grad_C[c]) * summed(gain_C[c]) * (summed(x_C[c]) * rstd);
  const S average_normal = sum_normal / static_cast<S>(channels);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c)
    store(x_grad_C[c], rstd * (summed(y_grad_C[c]) * summed(gain_C[c]) -
                               summed(x_C[c]) * rstd * average_normal));
}

}  // namespace fourfold::kernels::cpu
