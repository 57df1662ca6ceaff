// Finds the CUDA kernel that an implementation's name means.
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/cublaslt.h"

namespace fourfold::kernels::cuda {

Enqueue prepare(std::string_view implementation, const Problem& problem) {
  if (implementation == "own") return prepare_own(problem);
  const auto* matmul = std::get_if<op::Matmul>(&problem.op);
  if (matmul != nullptr && implementation == "cublaslt")
    return cublaslt::prepare(*matmul, problem, cublaslt::Precision::full);
  if (matmul != nullptr && implementation == "cublaslt_tf32")
    return cublaslt::prepare(*matmul, problem, cublaslt::Precision::tf32);
  fail_internal(format("{} has an implementation '{}'", op::name(problem.op), implementation));
}

}  // namespace fourfold::kernels::cuda
