// The operands of a kernel that is to be measured: what they are, not where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace fourfold::measure {

/// Each with its shape and type, in the order of op::operands, and no memory.
inline std::vector<kernels::Tensor> operands_of(const kernels::Problem& problem) {
  std::vector<kernels::Tensor> tensors;
  const op::Operands operands = op::operands(problem.op);
  for (std::size_t i = 0; i < operands.size(); ++i)
    tensors.push_back(
        {nullptr, problem.shapes[i], op::element_dtype(operands[i].element, problem.dtype)});
  return tensors;
}

/// The element of that index of an integer operand: spread over all below the bound.
inline std::int64_t spread(std::int64_t index, std::int64_t bound) {
  return (index * 7919 + 1) % bound;
}

}  // namespace fourfold::measure
