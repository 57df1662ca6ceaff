// Where cuDNN or cudnn-frontend were not found: there is no attention and no convolution by cuDNN.
#include "base/error.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/cudnn_convolution.h"

namespace fourfold::kernels::cuda::cudnn {

bool is_built() {
  return false;
}
bool computes(const Problem&, Order) {
  return false;
}
Enqueue prepare(const Problem&, Order) {
  fail_internal("attention by cuDNN is asked for where this build has it");
}
std::int64_t workspace_bytes(const Problem&, Order) {
  fail_internal("attention by cuDNN is asked for where this build has it");
}
std::optional<LibraryConvolution> find_convolution(const ConvolutionForm&,
                                                   const ConvolutionMethod&) {
  return std::nullopt;
}
int count_convolutions(const ConvolutionForm&, const ConvolutionMethod&) {
  return 0;
}

}  // namespace fourfold::kernels::cuda::cudnn
