// kernels/cuda/cublaslt.h without the library: all candidates compute what the model of it does,
// and each takes one launch less than the one before, so that the last is the fastest.
#include "kernels/cuda/cublaslt.h"
#include "support/cuda_emulation/emulation.h"
#include "support/model_cublaslt.h"

namespace fourfold::kernels::cuda::cublaslt {
namespace {

constexpr int candidates = 3;

}  // namespace

Enqueue prepare(const Problem& problem, const Method& method) {
  const Enqueue run = prepare_product(problem, test::model_of_cublaslt(test::Epilogues::some));
  return [run, idle = candidates - 1 - method.candidate](Tensors operands, Workspace workspace,
                                                         Stream stream) {
    for (int i = 0; i < idle; ++i) cuda_emulation::enqueue(stream, [] {});
    run(operands, workspace, stream);
  };
}

std::int64_t workspace_bytes(const Problem& problem) {
  return product_workspace_bytes(problem, 2 * test::model_workspace_bytes);
}

std::int64_t needed_workspace_bytes(const Problem& problem, const Method&) {
  return product_workspace_bytes(problem, test::model_workspace_bytes);
}

int count_candidates(const Problem&, Precision) {
  return candidates;
}

}  // namespace fourfold::kernels::cuda::cublaslt
