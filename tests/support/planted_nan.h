// Where a NaN may be planted in a training program, so that the step must say so. Header only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "op/table.h"
#include "program/program.h"

namespace fourfold::test {

/// The computations before the update whose first output is of floating-point numbers.
inline std::vector<std::size_t> places_for_a_nan(const program::Program& train) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < train.tasks.back().begin; ++i) {
    const auto* compute = std::get_if<program::Compute>(&train.instructions[i].what);
    if (compute == nullptr) continue;
    const op::Operands operands = op::operands(compute->op);
    const auto first = std::ranges::find_if(
        operands, [](const op::Operand& operand) { return operand.role != op::Role::read; });
    const DType dtype = op::element_dtype(first->element, compute->dtype);
    if (dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16) places.push_back(i);
  }
  return places;
}

}  // namespace fourfold::test
