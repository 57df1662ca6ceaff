// Finds the CUDA kernel that an implementation's name means.
#include "base/error.h"
#include "base/format.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn_convolution.h"

namespace fourfold::kernels::cuda {

Enqueue prepare(std::string_view implementation, const Problem& problem) {
  if (implementation == "own") return prepare_own(problem);
  const auto method = cublaslt::method_of(implementation);
  if (method && op::product_of(problem.op)) return cublaslt::prepare(problem, *method);
  if (const auto product = product_of_convolution(problem); method && product)
    return on_operands_of_convolution(*product, cublaslt::prepare(product->problem, *method));
  if (is_convolution(problem.op))
    if (const auto convolution = cudnn::convolution_method_of(implementation))
      return cudnn::prepare(problem, *convolution);
  if (const auto order = cudnn::order_of(implementation)) return cudnn::prepare(problem, *order);
  fail_internal(format("{} has an implementation '{}'", op::name(problem.op), implementation));
}

}  // namespace fourfold::kernels::cuda
