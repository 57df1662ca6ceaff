// Chains of rows by own kernels: all at once where there is such a kernel, else piece by piece.
#include "kernels/cuda/rows.h"
#include "kernels/run_pieces.h"

namespace fourfold::kernels::cuda {

Enqueue prepare_row(const op::Fused& chain, const Problem& problem) {
  if (const auto rows = row_chain(chain, problem.shapes))
    return std::visit([&](const auto& kind) { return prepare_chain(kind, problem); }, *rows);
  auto kernels = std::make_shared<PieceKernels<Enqueue>>(problem, prepare_own);
  return [kernels](Tensors operands, Workspace workspace, Stream stream) {
    kernels->run(operands, workspace, stream);
  };
}

std::int64_t workspace_bytes(const op::Fused& chain, const Problem& problem) {
  if (row_chain(chain, problem.shapes)) return 0;
  return largest_workspace(problem, own_workspace_bytes);
}

}  // namespace fourfold::kernels::cuda
