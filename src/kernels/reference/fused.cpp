// Reference kernels of fused rows: their parts, one after another.
#include "kernels/reference/rows.h"
#include "kernels/run_parts.h"

namespace fourfold::kernels::reference {

Run prepare_row(const op::BiasGelu&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::CastList&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::AddLayerNorm&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::AddLayerNormGradient&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::CrossEntropyBoth&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::ContractBias&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::ContractBiasGelu&, const Problem& problem) {
  return run_parts(problem, prepare);
}
Run prepare_row(const op::ContractGeluGradient&, const Problem& problem) {
  return run_parts(problem, prepare);
}

}  // namespace fourfold::kernels::reference
