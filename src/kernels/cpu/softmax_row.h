// A row of logits or scores: its largest, the sum of its exponentials, their logarithm, and the
// gradient of cross entropy. One thread; sums in an order that depends on the length of the row
// alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numbers>

#include "kernels/cpu/math.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {

/// The largest element; -infinity of none. NaN counts as nothing.
template <class T>
Sum<T> largest_of(const T* x, std::int64_t count) {
  Sum<T> largest = -std::numeric_limits<Sum<T>>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i)
    largest = largest < summed(x[i]) ? summed(x[i]) : largest;
  return largest;
}

/// Sum of exp(x - largest).
template <class T>
Sum<T> sum_exp_of(const T* x, std::int64_t count, Sum<T> largest) {
  Sum<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += exp_flushed(summed(x[i]) - largest);
  return sum;
}

/// log(sum of exp(x)), x read from memory once: exponentials are of x - reference, and the
/// reference follows the largest element only where that runs far ahead of it. Requires count > 0.
template <class T>
Sum<T> log_sum_exp_of(const T* x, std::int64_t count) {
  using S = Sum<T>;
  constexpr std::int64_t chunk = 2048;  // a piece that stays in the first-level cache
  constexpr S log2_e = static_cast<S>(std::numbers::log2e);
  constexpr S ahead = 40;  // exp(40) = 2e17, still far below the largest f32
  // A finite start: a chunk of -infinity alone is a sum of 0 and not of NaN.
  S reference =
      std::max(std::numeric_limits<S>::lowest() / 2, largest_of(x, std::min(chunk, count)));
  S sum = 0;
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t last = std::min(first + chunk, count);
    const S scaled = reference * log2_e;
    S chunk_sum = 0, largest = reference;
#pragma omp simd reduction(+ : chunk_sum) reduction(max : largest)
    for (std::int64_t i = first; i < last; ++i) {
      const S logit = summed(x[i]);
      chunk_sum += exp2_flushed(logit * log2_e - scaled);
      largest = largest < logit ? logit : largest;
    }
    if (largest - reference > ahead) {
      chunk_sum = sum_exp_of(x + first, last - first, largest);
      sum *= exp_of(reference - largest);
      reference = largest;
    }
    sum += chunk_sum;
  }
  return reference + log_of(sum);
}

/// grad = factor * (exp(logits - lse) - [v = label]); label < 0: it is not among these columns.
/// grad may lie where the logits lie.
template <class T>
void cross_entropy_gradient_row(const T* logits, std::int64_t count, Sum<T> lse, Sum<T> factor,
                                std::int64_t label, T* grad) {
  using S = Sum<T>;
  const S at_label = label < 0 ? S{0} : factor * (exp_of(summed(logits[label]) - lse) - 1);
#pragma omp simd
  for (std::int64_t v = 0; v < count; ++v)
    store(grad[v], factor * exp_flushed(summed(logits[v]) - lse));
  if (label >= 0) store(grad[label], at_label);
}

}  // namespace fourfold::kernels::cpu
