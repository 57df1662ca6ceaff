// kernels/cuda/cudnn_attention.h and cudnn_convolution.h without the library. It has a kernel for
// all attention that it is asked for, and computes what our own kernels do; convolutions by the
// model of them, each kernel with one launch less than the one before, so that the last is the
// fastest. In f32 it adds no bias.
#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/cudnn_convolution.h"
#include "support/cuda_emulation/emulation.h"
#include "support/model_convolution.h"

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

namespace {

constexpr int kernels_of_convolution = 3;

}  // namespace

std::optional<LibraryConvolution> find_convolution(const ConvolutionForm& form,
                                                   const ConvolutionMethod& method) {
  auto found = test::model_of_convolutions({.with_bias = form.in == DType::bf16})(form);
  if (!found) return std::nullopt;
  const int idle =
      kernels_of_convolution - 1 - std::min(method.candidate, kernels_of_convolution - 1);
  found->run = [idle, run = std::move(found->run)](const void* first, const void* second,
                                                   const void* bias, void* out, Workspace workspace,
                                                   Stream stream) {
    for (int i = 0; i < idle; ++i) cuda_emulation::enqueue(stream, [] {});
    run(first, second, bias, out, workspace, stream);
  };
  return found;
}

int count_convolutions(const ConvolutionForm& form, const ConvolutionMethod& method) {
  return find_convolution(form, method) ? kernels_of_convolution : 0;
}

}  // namespace fourfold::kernels::cuda::cudnn
