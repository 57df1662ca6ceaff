// Reads the names of implementations of convolutions by cuDNN, and runs them; needs no cuDNN.
#include "kernels/cuda/cudnn_convolution.h"

namespace fourfold::kernels::cuda::cudnn {
namespace {

FindConvolution finder(const ConvolutionMethod& method) {
  return [method](const ConvolutionForm& form) { return find_convolution(form, method); };
}

/// True if the name ends in the word, which is taken away.
bool take_end(std::string_view& name, std::string_view word) {
  if (!name.ends_with(word)) return false;
  name.remove_suffix(word.size());
  return true;
}

}  // namespace

std::optional<ConvolutionMethod> convolution_method_of(std::string_view implementation) {
  ConvolutionMethod method;
  if (implementation.size() > 2 && implementation[implementation.size() - 2] == '/') {
    method.candidate = implementation.back() - '0';
    if (method.candidate < 1 || method.candidate >= max_convolution_candidates) return std::nullopt;
    implementation.remove_suffix(2);
  }
  if (take_end(implementation, "_fast")) method.order = Order::any;
  if (take_end(implementation, "_tf32")) {
    method.precision = cublaslt::Precision::tf32;
  } else if (take_end(implementation, "_widened")) {
    // A number of bf16 is a number of tf32, too.
    method.precision = cublaslt::Precision::tf32;
    method.input = ConvolutionInput::widened;
  }
  if (implementation != "cudnn") return std::nullopt;
  return method;
}

bool computes(const Problem& problem, const ConvolutionMethod& method) {
  return has_convolution(problem, method.input, finder(method));
}

Enqueue prepare(const Problem& problem, const ConvolutionMethod& method) {
  return prepare_convolution(problem, method.input, finder(method));
}

std::int64_t workspace_bytes(const Problem& problem, const ConvolutionMethod& method) {
  return convolution_workspace_bytes(problem, method.input, finder(method));
}

int count_candidates(const Problem& problem, const ConvolutionMethod& method) {
  int count = 0;
  has_convolution(problem, method.input,
                  [&](const ConvolutionForm& form) -> std::optional<LibraryConvolution> {
                    count = count_convolutions(form, method);
                    return count > 0 ? std::optional(LibraryConvolution{}) : std::nullopt;
                  });
  return count;
}

}  // namespace fourfold::kernels::cuda::cudnn
