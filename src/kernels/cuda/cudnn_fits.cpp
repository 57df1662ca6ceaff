// What cuDNN is asked for; needs no cuDNN.
#include <variant>

#include "kernels/cuda/cudnn_attention.h"

namespace fourfold::kernels::cuda::cudnn {
namespace {

template <class AttentionOp>
bool fits(const AttentionOp& op, const Problem& problem) {
  const std::int64_t width = problem.shapes[0][4];
  return problem.dtype == DType::bf16 && op.rate == 0 && !op.documents && width % 8 == 0 &&
         width <= 128;
}

}  // namespace

bool attention_fits(const Problem& problem) {
  if (const auto* forward = std::get_if<op::Attention>(&problem.op)) return fits(*forward, problem);
  const auto* gradient = std::get_if<op::AttentionGradient>(&problem.op);
  return gradient != nullptr && fits(*gradient, problem);
}

}  // namespace fourfold::kernels::cuda::cudnn
