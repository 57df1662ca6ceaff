// Layer norm of one row of C channels and its gradient. One thread; sums in an order that depends
// on C alone, two passes for the variance.
#pragma once

#include <cmath>
#include <cstdint>

namespace fourfold::kernels::cpu {

template <class T>
struct RowStatistics {
  T mean, rstd;
};

/// y = (x - mean) rstd gain (+ bias); bias_C may be null.
template <class T>
RowStatistics<T> layer_norm_row(const T* x_C, const T* gain_C, const T* bias_C,
                                std::int64_t channels, double epsilon, T* y_C) {
  T sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < channels; ++c) sum += x_C[c];
  const T mean = sum / static_cast<T>(channels);
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < channels; ++c) squares += (x_C[c] - mean) * (x_C[c] - mean);
  const T rstd = 1 / std::sqrt(squares / static_cast<T>(channels) + static_cast<T>(epsilon));
  if (bias_C == nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y_C[c] = (x_C[c] - mean) * rstd * gain_C[c];
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      y_C[c] = (x_C[c] - mean) * rstd * gain_C[c] + bias_C[c];
  }
  return {mean, rstd};
}

/// With n = (x - mean) rstd and d = y_grad gain:  x_grad = rstd (d - average(d) - n average(d n)).
/// x_grad may be y_grad.
template <class T>
void layer_norm_gradient_row(const T* x_C, const T* gain_C, RowStatistics<T> row, const T* y_grad_C,
                             std::int64_t channels, T* x_grad_C) {
  const auto [mean, rstd] = row;
  T sum = 0, sum_normal = 0;
#pragma omp simd reduction(+ : sum, sum_normal)
  for (std::int64_t c = 0; c < channels; ++c) {
    const T scaled = y_grad_C[c] * gain_C[c];
    sum += scaled;
    sum_normal += scaled * ((x_C[c] - mean) * rstd);
  }
  const T average = sum / static_cast<T>(channels);
  const T average_normal = sum_normal / static_cast<T>(channels);
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c)
    x_grad_C[c] =
        rstd * (y_grad_C[c] * gain_C[c] - average - (x_C[c] - mean) * rstd * average_normal);
}

}  // namespace fourfold::kernels::cpu
