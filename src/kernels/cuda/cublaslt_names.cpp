// What names of implementations mean to cuBLASLt; needs no library.
#include "kernels/cuda/cublaslt.h"

namespace fourfold::kernels::cuda::cublaslt {

std::optional<Method> method_of(std::string_view implementation) {
  Method method;
  if (implementation.size() > 2 && implementation[implementation.size() - 2] == '/') {
    method.candidate = implementation.back() - '0';
    if (method.candidate < 1 || method.candidate >= max_candidates) return std::nullopt;
    implementation.remove_suffix(2);
  }
  if (implementation == "cublaslt_tf32")
    method.precision = Precision::tf32;
  else if (implementation != "cublaslt")
    return std::nullopt;
  return method;
}

}  // namespace fourfold::kernels::cuda::cublaslt
