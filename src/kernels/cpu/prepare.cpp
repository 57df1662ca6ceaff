// Finds the CPU kernel that an implementation's name means, and the workspace that it needs.
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cpu/attention_products.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/openblas.h"
#include "kernels/cpu/own_loops.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/widened.h"
#include "kernels/cpu/winograd.h"

namespace fourfold::kernels::cpu {
namespace {

/// True if a library takes a problem in bf16 through copies in f32: a BLAS any, oneDNN where the
/// CPU has no products in bf16.
bool is_widened_by(std::string_view implementation, const Problem& problem) {
  if (problem.dtype != DType::bf16) return false;
  if (implementation == openblas::implementation) return true;
  return implementation == "onednn" && !onednn::has_bf16();
}

}  // namespace

std::int64_t workspace_bytes(std::string_view implementation, const Problem& problem) {
  if (implementation == "vector") return own_loops().vector_workspace_bytes(problem);
  if (implementation == "onednn" && attention_products::computes(problem.op, problem.dtype))
    return own_loops().attention_products_workspace_bytes(problem);
  if (is_widened_by(implementation, problem))
    return widened_bytes(problem, workspace_bytes(implementation, in_float(problem)));
  if (implementation == "onednn") return onednn::workspace_bytes(problem);
  if (implementation == "winograd") return own_loops().winograd_workspace_bytes(problem);
  return 0;
}

Run prepare(std::string_view implementation, const Problem& problem) {
  require(problem.shapes.size() == op::operands(problem.op).size(),
          "a problem has a shape for every operand");
  require(problem.threads >= 1, "a kernel runs on at least one thread");
  if (implementation == "reference") return reference::prepare(problem);
  if (implementation == "vector") return own_loops().prepare_vector(problem);
  if (implementation == "onednn" && attention_products::computes(problem.op, problem.dtype))
    return own_loops().prepare_attention_products(problem);
  if (is_widened_by(implementation, problem)) {
    const Problem wide = in_float(problem);
    return widened(problem, prepare(implementation, wide), workspace_bytes(implementation, wide));
  }
  const auto* contract = problem.op.get_if<op::Contract>();
  if (contract != nullptr && implementation == openblas::implementation)
    return openblas::prepare(*contract, problem);
  if (contract != nullptr && implementation == "onednn_sgemm" && problem.dtype == DType::f32)
    return onednn::prepare_sgemm(*contract, problem);
  if (implementation == "winograd" && winograd::computes(problem.op, problem.shapes, problem.dtype))
    return own_loops().prepare_winograd(problem);
  if (implementation == "onednn" && onednn::computes(problem.op, problem.dtype))
    return onednn::prepare(problem);
  fail_internal(format("{} has an implementation '{}'", op::name(problem.op), implementation));
}

}  // namespace fourfold::kernels::cpu
