// Convolutions by cuDNN. The library's own headers stay in cudnn_convolution.cpp, which is built
// where cuDNN and cudnn-frontend are found; elsewhere no_cudnn.cpp says that there is none.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/library_convolution.h"

namespace fourfold::kernels::cuda::cudnn {

/// One of the library's ways to compute a convolution.
struct ConvolutionMethod {
  cublaslt::Precision precision = cublaslt::Precision::full;
  /// In any order, kernels whose bits differ from run to run are among those that it proposes.
  Order order = Order::fixed;
  ConvolutionInput input = ConvolutionInput::as_stored;
  /// Which of the kernels that the library proposes, best first; the last where it proposes fewer.
  int candidate = 0;

  auto operator<=>(const ConvolutionMethod&) const = default;
};

/// Names of implementations: "cudnn"; with "_tf32" for f32 rounded to tf32 going in, or "_widened"
/// for bf16 widened before; then with "_fast" for kernels of any order; then with "/1" to "/4" for
/// another candidate than the first. Nothing for other names.
std::optional<ConvolutionMethod> convolution_method_of(std::string_view implementation);
/// cuDNN 9.19 proposes thirty to forty. These are those that it takes for the fastest; some are
/// compiled when they are built.
inline constexpr int max_convolution_candidates = 5;

/// True if cuDNN computes a convolution (is_convolution) on the device that is current. Asking
/// prepares it: tenths of a second for each shape, the first time. False without a device.
bool computes(const Problem& problem, const ConvolutionMethod& method);

/// Requires computes(problem, method). Calls allocate a little host memory.
Enqueue prepare(const Problem& problem, const ConvolutionMethod& method);
std::int64_t workspace_bytes(const Problem& problem, const ConvolutionMethod& method);

/// How many different kernels the library proposes; asks the device.
int count_candidates(const Problem& problem, const ConvolutionMethod& method);

/// What the library itself says, in cudnn_convolution.cpp.
std::optional<LibraryConvolution> find_convolution(const ConvolutionForm& form,
                                                   const ConvolutionMethod& method);
/// The number of kernels for the form, at most max_convolution_candidates.
int count_convolutions(const ConvolutionForm& form, const ConvolutionMethod& method);

}  // namespace fourfold::kernels::cuda::cudnn
