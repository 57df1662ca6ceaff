// Finds the reference kernel of an op.
#include <variant>

#include "base/error.h"
#include "kernels/kernel.h"
#include "kernels/reference/rows.h"

namespace fourfold::kernels::reference {

Run prepare(const Problem& problem) {
  require(problem.shapes.size() == op::operands(problem.op).size(),
          "a problem has a shape for every operand");
  return op::visit_row([&](const auto& row) { return prepare_row(row, problem); }, problem.op);
}

}  // namespace fourfold::kernels::reference
