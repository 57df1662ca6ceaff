// Reference kernels of chains and lists of rows: their pieces, one after another.
#include "kernels/reference/rows.h"
#include "kernels/run_pieces.h"

namespace fourfold::kernels::reference {

Run prepare_row(const op::Fused&, const Problem& problem) {
  return run_pieces(problem, prepare);
}
Run prepare_row(const op::CastList&, const Problem& problem) {
  return run_pieces(problem, prepare);
}
Run prepare_row(const op::MovingAverageList&, const Problem& problem) {
  return run_pieces(problem, prepare);
}

}  // namespace fourfold::kernels::reference
