// What cuDNN is asked for; needs no cuDNN.
#include <variant>

#include "kernels/cuda/attention_format.h"
#include "kernels/cuda/cudnn_attention.h"

namespace fourfold::kernels::cuda::cudnn {
namespace {

/// Up to 256 for both passes since compute capability 9.0, before it 128 for the gradient: "Support
/// Matrix" of https://docs.nvidia.com/deeplearning/cudnn/frontend, "Attention". Where the version
/// or the device has less, building the graph says so.
constexpr std::int64_t most_width = 256;

template <class AttentionOp>
bool fits(const AttentionOp& op, const Problem& problem) {
  const std::int64_t width = problem.shapes[0].back();
  return problem.dtype == DType::bf16 && op.rate == 0 && !op.documents && !op.grouped &&
         width % 8 == 0 && width <= most_width;
}

/// In the workspace of the gradient, cudnn-frontend puts a float for each token and head before
/// what it hands to cuDNN, and does not round that up
/// (node/scaled_dot_product_flash_attention.h, get_fe_workspace_size_node): cuDNN's part would
/// begin between the 16 bytes that its tensors have.
bool leaves_workspace_aligned(const Problem& problem) {
  constexpr std::int64_t alignment = 16;
  const AttentionFormat form(problem.shapes[0]);
  return form.batch * form.heads * form.time * size_bytes(DType::f32) % alignment == 0;
}

}  // namespace

std::optional<Order> order_of(std::string_view implementation) {
  if (implementation == "cudnn") return Order::fixed;
  if (implementation == "cudnn_fast") return Order::any;
  return std::nullopt;
}

bool attention_fits(const Problem& problem, Order order) {
  if (const auto* forward = problem.op.get_if<op::Attention>())
    return order == Order::fixed && fits(*forward, problem);
  const auto* gradient = problem.op.get_if<op::AttentionGradient>();
  return gradient != nullptr && fits(*gradient, problem) && leaves_workspace_aligned(problem);
}

}  // namespace fourfold::kernels::cuda::cudnn
