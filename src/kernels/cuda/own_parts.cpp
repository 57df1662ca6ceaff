// Products with what follows them by own kernels: those of the parts, one after another.
#include "kernels/cuda/rows.h"
#include "kernels/run_parts.h"

namespace fourfold::kernels::cuda {
namespace {

Enqueue own_parts(const Problem& problem) {
  auto kernels = std::make_shared<PartKernels<Enqueue>>(problem, prepare_own);
  return [kernels](Tensors operands, Workspace workspace, Stream stream) {
    kernels->run(operands, workspace, stream);
  };
}

}  // namespace

Enqueue prepare_row(const op::ContractBias&, const Problem& problem) {
  return own_parts(problem);
}
Enqueue prepare_row(const op::ContractBiasGelu&, const Problem& problem) {
  return own_parts(problem);
}
Enqueue prepare_row(const op::ContractGeluGradient&, const Problem& problem) {
  return own_parts(problem);
}

std::int64_t workspace_bytes(const op::ContractGeluGradient&, const Problem& problem) {
  return largest_workspace(problem, own_workspace_bytes);
}

}  // namespace fourfold::kernels::cuda
