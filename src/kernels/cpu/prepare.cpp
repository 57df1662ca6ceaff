// Finds the CPU kernel that an implementation's name means.
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openblas.h"
#include "kernels/cpu/own_loops.h"
#include "kernels/cpu/winograd.h"

namespace fourfold::kernels::cpu {

Run prepare(std::string_view implementation, const Problem& problem) {
  require(problem.shapes.size() == op::operands(problem.op).size(),
          "a problem has a shape for every operand");
  require(problem.threads >= 1, "a kernel runs on at least one thread");
  if (implementation == "reference") return reference::prepare(problem);
  if (implementation == "vector") return own_loops().prepare_vector(problem);
  const auto* contract = std::get_if<op::Contract>(&problem.op);
  if (contract != nullptr && implementation == "openblas")
    return openblas::prepare(*contract, problem);
  if (implementation == "winograd" && winograd::computes(problem.op, problem.shapes, problem.dtype))
    return own_loops().prepare_winograd(problem);
  if (implementation == "onednn" && onednn::computes(problem.op, problem.dtype))
    return onednn::prepare(problem);
  fail_internal(format("{} has an implementation '{}'", op::name(problem.op), implementation));
}

}  // namespace fourfold::kernels::cpu
