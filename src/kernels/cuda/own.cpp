// Finds the own kernel of an op.
#include <variant>

#include "base/error.h"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {

Enqueue prepare_own(const Problem& problem) {
  require(problem.shapes.size() == op::operands(problem.op).size(),
          "a problem has a shape for every operand");
  return op::visit_row([&](const auto& row) { return prepare_row(row, problem); }, problem.op);
}

std::int64_t own_workspace_bytes(const Problem& problem) {
  return op::visit_row([&](const auto& row) { return workspace_bytes(row, problem); }, problem.op);
}

}  // namespace fourfold::kernels::cuda
