// Fused rows that a CPU's target has none of, as their parts: a product does not leave room in its
// registers for what follows it, and weights are used in the precision they are kept in.
#include "kernels/cpu/rows.h"
#include "kernels/run_parts.h"

namespace fourfold::kernels::cpu {
namespace {

Run vector_parts(const Problem& problem) {
  return run_parts(problem, [](const Problem& part) { return prepare("vector", part); });
}

std::int64_t vector_bytes(const Problem& problem) {
  return largest_workspace(problem, [](const Problem& part) {
    return std::visit([&](const auto& row) { return workspace_bytes(row, part); }, part.op);
  });
}

}  // namespace

Run prepare_row(const op::CastList&, const Problem& problem) {
  return vector_parts(problem);
}
Run prepare_row(const op::ContractBias&, const Problem& problem) {
  return vector_parts(problem);
}
Run prepare_row(const op::ContractBiasGelu&, const Problem& problem) {
  return vector_parts(problem);
}
Run prepare_row(const op::ContractGeluGradient&, const Problem& problem) {
  return vector_parts(problem);
}

std::int64_t workspace_bytes(const op::ContractBias&, const Problem& problem) {
  return vector_bytes(problem);
}
std::int64_t workspace_bytes(const op::ContractBiasGelu&, const Problem& problem) {
  return vector_bytes(problem);
}
std::int64_t workspace_bytes(const op::ContractGeluGradient&, const Problem& problem) {
  return vector_bytes(problem);
}

}  // namespace fourfold::kernels::cpu
