// Rows of diffusion models on CPU. Their pictures have few channels where all other rows have
// hundreds, so the plain loops do.
#include "kernels/cpu/rows.h"

namespace fourfold::kernels::cpu {

Run prepare_row(const op::DiffusionSchedule&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::DrawTimes&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::DrawTimesByLoss&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::TimesOfStep&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::AddNoise&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::DiffusionLoss&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::DiffusionLossGradient&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::WeighLosses&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::KeepLosses&, const Problem& problem) {
  return reference::prepare(problem);
}
Run prepare_row(const op::Denoise&, const Problem& problem) {
  return reference::prepare(problem);
}

}  // namespace fourfold::kernels::cpu
