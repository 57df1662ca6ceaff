// kernels/cuda/cublaslt.h without the library: all candidates compute what the model of it does,
// and each takes one launch less than the one before, so that the last is the fastest.
#include "kernels/cuda/cublaslt.h"
#include "support/cuda_emulation/emulation.h"
#include "support/model_cublaslt.h"

namespace fourfold::kernels::cuda::cublaslt {
namespace {

constexpr int candidates = 3;
constexpr std::uint32_t fastest_split = 3;

}  // namespace

Enqueue prepare(const Problem& problem, const Method& method) {
  const Enqueue run = prepare_product(problem, test::model_of_cublaslt(test::Epilogues::some));
  const int idle = method.numbers ? static_cast<int>(fastest_split - (*method.numbers)[3])
                                  : candidates - method.candidate;
  return [run, idle](Tensors operands, Workspace workspace, Stream stream) {
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

/// Splits of k: each more takes one launch less, as if it were faster.
std::vector<Method> neighbours(const Problem&, Precision precision) {
  std::vector<Method> methods;
  for (std::uint32_t parts = 1; parts <= fastest_split; ++parts)
    methods.push_back({precision, 0, AlgorithmNumbers{66, 1, 1, parts, 0, 0, 0, 0, 0}});
  return methods;
}

}  // namespace fourfold::kernels::cuda::cublaslt
