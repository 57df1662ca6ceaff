// What kernels of the way back through a norm share: what they get, and what they compute of a
// pack. R rows, C channels. What `wide` names lies as X, all else as T.
#pragma once

#include "kernels/cuda/norm.cuh"

namespace fourfold::kernels::cuda {

/// Gradients of gain, bias and the bias of the branch.
inline constexpr int sums_of_norm = 3;
/// How many blocks of few_threads shall be on a multiprocessor.
inline constexpr int norm_gradient_blocks = 2;

template <class X, class T>
struct NormGradient {
  const X* x_RC;
  const T* gain_C;
  const float *mean_R, *rstd_R;  // no mean where the norm is not centred
  const T* y_grad_RC;

  __device__ Statistics statistics(std::int64_t row) const {
    return statistics_at(mean_R, rstd_R, row);
  }
  /// The average of d, from its sum over a row.
  __device__ float average(float sum, float scale) const {
    return mean_R == nullptr ? 0 : sum * scale;
  }
};

/// sum_grad = x_grad + addend, branch_grad = dropout of it, where it drops.
template <class X, class T>
struct ResidualGradient {
  const X* addend_RC;  // may be null
  bool drops;
  DropoutOfTensor dropout;
  X* sum_grad_RC;
  T* branch_grad_RC;  // may be null
};

template <class X, class T>
struct NormGradientsOf {
  NormGradient<X, T> norm;
  ResidualGradient<X, T> residual;
  NormSizes sizes;
  std::int64_t stretches = 0;
  float* parts = nullptr;  // (sums_of_norm, stretches, C); null where nothing is summed
};

/// What a thread reads of a row, as it lies; zeros where there is no row.
template <class X, class T>
struct RowPack {
  PackOf<T, X> x, addend;
  PackOf<T, T> y_grad;

  template <class Part>
  __device__ void load(const NormGradientsOf<X, T>& of, std::int64_t at, Part there) {
    x = load_packs<T>(of.norm.x_RC + at, there);
    y_grad = load_packs<T>(of.norm.y_grad_RC + at, there);
    addend = {};
    if (of.residual.addend_RC != nullptr) addend = load_packs<T>(of.residual.addend_RC + at, there);
  }
  __device__ float normal(int i, const Statistics& of) const { return (x[i] - of.mean) * of.rstd; }
  /// Adds to the sums over a row of d and of d n, with d = y_grad gain and n the normal x.
  __device__ void add_to(float& sum, float& sum_normal, const Statistics& of,
                         const PackOf<T, T>& gain) const {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      const float scaled = y_grad[i] * gain[i];
      sum += scaled;
      sum_normal += scaled * normal(i, of);
    }
  }
};

/// Writes a pack of the gradients at the place `at` of the tensor: x_grad = rstd (d - average(d) -
/// n average(d n)), then what stands after it. `branch_grad` is what is left of it for the branch.
/// Rounds where the parts of the fused row store. Requires `may_drop` where the residual drops:
/// random numbers take registers that others want.
template <bool may_drop, class X, class T, class Part>
__device__ void put_gradient(const ResidualGradient<X, T>& of, DroppedElements& decisions,
                             std::int64_t at, Part there, const RowPack<X, T>& pack,
                             const PackOf<T, T>& gain, const Statistics& statistics, float average,
                             float average_normal, float (&branch_grad)[pack_size<T>]) {
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) {
    const float x_grad =
        __fmul_rn(statistics.rstd,
                  pack.y_grad[i] * gain[i] - average - pack.normal(i, statistics) * average_normal);
    branch_grad[i] = of.addend_RC != nullptr
                         ? stored<X>(__fadd_rn(stored<X>(x_grad), pack.addend[i]))
                         : stored<X>(x_grad);
  }
  store_packs<T>(branch_grad, there, of.sum_grad_RC + at);
  if (of.branch_grad_RC == nullptr) return;
  if (may_drop && of.drops)
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i))
        branch_grad[i] = of.dropout.apply(decisions, at + i, stored<T>(branch_grad[i]));
  store_packs<T>(branch_grad, there, of.branch_grad_RC + at);
}

/// Adds what a row adds to the sums over rows.
template <class X, class T>
__device__ void add_to_sums(float (&sums)[sums_of_norm][pack_size<T>], const RowPack<X, T>& pack,
                            const Statistics& statistics,
                            const float (&branch_grad)[pack_size<T>]) {
#pragma unroll
  for (int i = 0; i < pack_size<T>; ++i) {
    sums[0][i] += pack.y_grad[i] * pack.normal(i, statistics);
    sums[1][i] += pack.y_grad[i];
    sums[2][i] += stored<T>(branch_grad[i]);
  }
}

}  // namespace fourfold::kernels::cuda
