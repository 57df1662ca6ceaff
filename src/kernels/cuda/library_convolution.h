// How a convolution runs where a library computes it: what the library is asked for, and what own
// kernels do before and after it. Not the library: a caller hands that in (cudnn_convolution.h), so
// that tests can put a model of it in its place.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/picture_sizes.h"

namespace fourfold::kernels::cuda {

/// True for op::Convolution and its gradients, and for a chain of op::Convolution and op::AddBias.
bool is_convolution(const op::Op& op);

/// What a library computes at once, channels last:
///   forward           out = y of x and weight, plus bias[o] where it `adds_bias`
///   x_gradient        out = x_grad of y_grad and weight
///   weight_gradient   out = weight_grad of x and y_grad, which overwrites what was there
struct ConvolutionForm {
  enum class Kind : std::uint8_t { forward, x_gradient, weight_gradient };

  Kind kind = Kind::forward;
  ConvolutionSizes sizes = {};
  DType in = DType::f32, out = DType::f32;  // sums are f32
  bool adds_bias = false;                   // of the type of `in`

  auto operator<=>(const ConvolutionForm&) const = default;
};

/// Operands in the order of the op; a bias is null where the form adds none. All begin at
/// operand_alignment (fused_product.h), the workspace at library_alignment.
using Convolve = std::function<void(const void* first, const void* second, const void* bias,
                                    void* out, Workspace, Stream)>;
struct LibraryConvolution {
  Convolve run;
  std::int64_t workspace_bytes = 0;
};
/// Nothing where the library has no kernel for the form.
using FindConvolution = std::function<std::optional<LibraryConvolution>(const ConvolutionForm&)>;

/// What the library is handed: the operands as they are, or bf16 widened to f32 in the workspace. A
/// library that rounds f32 to tf32 then rounds nothing. cuDNN 9.19 has few kernels that give f32 of
/// bf16, and none where channels are no multiple of 8.
enum class ConvolutionInput : std::uint8_t { as_stored, widened };

/// True if the library computes a convolution, f32 or bf16. A bias that it does not add is added by
/// an own kernel, and so is what a gradient accumulates to. Widened input is for gradients of a
/// weight alone, from bf16 to f32, that have too few tiles to fill a GPU.
bool has_convolution(const Problem& problem, ConvolutionInput input, const FindConvolution& find);

/// Requires has_convolution.
Enqueue prepare_convolution(const Problem& problem, ConvolutionInput input,
                            const FindConvolution& find);
std::int64_t convolution_workspace_bytes(const Problem& problem, ConvolutionInput input,
                                         const FindConvolution& find);

/// The product of matrices that a convolution of 1 x 1 at stride 1 without padding is, with the
/// bias after it; nothing for other convolutions.
struct ConvolutionProduct {
  Problem problem;
  std::vector<std::size_t> operands;  // for each of its own, the number of the convolution's
};
std::optional<ConvolutionProduct> product_of_convolution(const Problem& problem);
/// `kernel` of such a product on the operands of the convolution.
Enqueue on_operands_of_convolution(const ConvolutionProduct& product, Enqueue kernel);

}  // namespace fourfold::kernels::cuda
