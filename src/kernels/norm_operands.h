// Where the operands of the rows of layer norm stand: those that are not centred have no mean.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/kernel.h"

namespace fourfold::kernels {

/// Null where there is no such operand.
template <class T>
T* optional_operand(Tensors operands, const std::optional<std::size_t>& index) {
  return index ? operands[*index].as<T>() : nullptr;
}

/// The places in op::LayerNorm and op::LayerNormApply, from the gain on.
struct NormOperands {
  std::size_t gain, y, rstd;
  std::optional<std::size_t> bias = {}, mean = {};

  template <class Row>
  NormOperands(const Row& op, std::size_t of_gain)
      : gain(of_gain), y(gain + (op.bias ? 2 : 1)), rstd(y + (op.centred ? 2 : 1)) {
    if (op.bias) bias = gain + 1;
    if (op.centred) mean = y + 1;
  }
};

/// The places in the gradients, from the mean, or else from rstd on; `next` is the operand after
/// the gradient of y.
struct NormGradientOperands {
  std::size_t rstd, y_grad, next;
  std::optional<std::size_t> mean = {};

  NormGradientOperands(bool centred, std::size_t first)
      : rstd(first + (centred ? 1 : 0)), y_grad(rstd + 1), next(rstd + 2) {
    if (centred) mean = first;
  }
};

}  // namespace fourfold::kernels
