// Finds the CUDA kernel that an implementation's name means.
#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn_attention.h"

namespace fourfold::kernels::cuda {

Enqueue prepare(std::string_view implementation, const Problem& problem) {
  if (implementation == "own") return prepare_own(problem);
  const auto method = cublaslt::method_of(implementation);
  if (method && op::product_of(problem.op)) return cublaslt::prepare(problem, *method);
  if (const auto order = cudnn::order_of(implementation)) return cudnn::prepare(problem, *order);
  fail_internal(format("{} has an implementation '{}'", op::name(problem.op), implementation));
}

}  // namespace fourfold::kernels::cuda
