// kernels/cuda/cudnn_attention.h without the library: it has a kernel for all that it is asked for,
// and computes what our own kernels do.
#include "base/error.h"
#include "kernels/cuda/cudnn_attention.h"

namespace fourfold::kernels::cuda::cudnn {

bool is_built() {
  return true;
}

bool computes(const Problem& problem, Order order) {
  return attention_fits(problem, order);
}

Enqueue prepare(const Problem& problem, Order order) {
  require(computes(problem, order), "cuDNN is asked for attention that it may have");
  return prepare_own(problem);
}

std::int64_t workspace_bytes(const Problem& problem, Order order) {
  require(computes(problem, order), "cuDNN is asked for attention that it may have");
  return own_workspace_bytes(problem);
}

}  // namespace fourfold::kernels::cuda::cudnn
