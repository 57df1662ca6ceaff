// What kernels of layer norm share: its sizes, and the way back through a norm and the residual
// connection before it. R rows, C channels. What `wide` names lies as X, all else as T.
#pragma once

#include <optional>

#include "kernels/cuda/dropout.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/fused_rows.h"

namespace fourfold::kernels::cuda {

struct NormSizes {
  std::int64_t rows, channels;
  bool whole_packs = false;  // a row is whole packs, and aligned in all tensors
};

inline NormSizes norm_sizes(const Shape& x) {
  return {x.elements(0, x.rank() - 1), x.back()};
}

struct Statistics {
  float mean, rstd;
};

/// Sizes for one call.
template <class T, class... Pointers>
NormSizes sizes_for(NormSizes sizes, Pointers... pointers) {
  sizes.whole_packs = sizes.channels % pack_size<T> == 0 && are_aligned(pointers...);
  return sizes;
}

template <class T>
T* optional_operand(Tensors operands, const std::optional<std::size_t>& index) {
  return index ? operands[*index].as<T>() : nullptr;
}

template <class X, class T>
struct NormGradient {
  const X* x_RC;
  const T* gain_C;
  const float *mean_R, *rstd_R;
  const T* y_grad_RC;
};

template <class X, class T>
NormGradient<X, T> norm_gradient(Tensors operands, const ResidualNormGradient& chain) {
  return {operands[chain.x].as<X>(), operands[chain.gain].as<T>(), operands[chain.mean].as<float>(),
          operands[chain.rstd].as<float>(), operands[chain.y_grad].as<T>()};
}

/// The way back through a residual connection: sum_grad = x_grad + addend, branch_grad = dropout of
/// it, where it drops.
template <class X, class T>
struct ResidualGradient {
  const X* addend_RC;  // may be null
  bool drops;
  DropoutOfTensor dropout;
  X* sum_grad_RC;
  T* branch_grad_RC;  // may be null
};

template <class X, class T>
ResidualGradient<X, T> residual_gradient(Tensors operands, const ResidualNormGradient& chain,
                                         const DropoutOfTensor& dropout) {
  const bool drops = chain.dropout.has_value();
  return {optional_operand<X>(operands, chain.addend), drops,
          drops ? dropout.at(operands, chain.seed, chain.step) : dropout,
          operands[chain.sum_grad].as<X>(), optional_operand<T>(operands, chain.branch_grad)};
}

/// Writes a pack of sum_grad, and of branch_grad, which is left in `branch_grad`, at the place `at`
/// of the tensor. Rounds where the parts of the fused row store. Requires `may_drop` where the
/// residual drops: random numbers take registers that others want.
template <bool may_drop, class X, class T, class Part, class Addend>
__device__ void put_gradient(const ResidualGradient<X, T>& residual, DroppedElements& decisions,
                             std::int64_t at, Part there, const float (&x_grad)[pack_size<T>],
                             const Addend& addend, float (&branch_grad)[pack_size<T>]) {
  const bool adds = residual.addend_RC != nullptr;
  for (int i = 0; i < pack_size<T>; ++i)
    branch_grad[i] =
        adds ? stored<X>(__fadd_rn(stored<X>(x_grad[i]), addend[i])) : stored<X>(x_grad[i]);
  store_packs<T>(branch_grad, there, residual.sum_grad_RC + at);
  if (residual.branch_grad_RC == nullptr) return;
  if (may_drop && residual.drops)
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i)
      if (there.has(i))
        branch_grad[i] = residual.dropout.apply(decisions, at + i, stored<T>(branch_grad[i]));
  store_packs<T>(branch_grad, there, residual.branch_grad_RC + at);
}

}  // namespace fourfold::kernels::cuda
