// Runs a chain or a list of rows piece by piece. This defines what such a row computes, and it is
// what runs where a backend has no kernel that does all of it at once.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace fourfold::kernels {

/// A piece of a problem, and which of the whole's operands it has.
struct PieceProblem {
  Problem problem;
  std::vector<std::size_t> operands;
};

inline std::vector<PieceProblem> piece_problems(const Problem& whole) {
  std::vector<PieceProblem> list;
  for (op::Piece& piece : op::pieces(whole.op)) {
    Problem own{piece.op, whole.dtype, {}, whole.threads};
    for (const std::size_t operand : piece.operands) own.shapes.push_back(whole.shapes[operand]);
    list.push_back({std::move(own), std::move(piece.operands)});
  }
  return list;
}

/// Kernels of the pieces, `prepare(problem)` giving that of each; Kernel is called with its
/// operands, the row's workspace and whatever else a call is given.
template <class Kernel>
class PieceKernels {
 public:
  template <class Prepare>
  PieceKernels(const Problem& whole, const Prepare& prepare) {
    for (PieceProblem& piece : piece_problems(whole)) {
      const std::size_t count = piece.operands.size();
      steps_.push_back(
          {prepare(piece.problem), std::move(piece.operands), std::vector<Tensor>(count)});
    }
  }

  template <class... More>
  void run(Tensors operands, Workspace workspace, const More&... more) {
    for (Step& step : steps_) {
      for (std::size_t i = 0; i < step.operands.size(); ++i)
        step.tensors[i] = operands[step.operands[i]];
      step.kernel(step.tensors, workspace, more...);
    }
  }

 private:
  struct Step {
    Kernel kernel;
    std::vector<std::size_t> operands;
    std::vector<Tensor> tensors;  // of a call, kept so that it does not allocate
  };
  std::vector<Step> steps_;
};

template <class Prepare>
Run run_pieces(const Problem& whole, const Prepare& prepare) {
  auto kernels = std::make_shared<PieceKernels<Run>>(whole, prepare);
  return [kernels](Tensors operands, Workspace workspace) { kernels->run(operands, workspace); };
}

/// The largest of what the pieces need, `bytes(problem)` giving that of each.
template <class Bytes>
std::int64_t largest_workspace(const Problem& whole, const Bytes& bytes) {
  std::int64_t largest = 0;
  for (const PieceProblem& piece : piece_problems(whole))
    largest = std::max<std::int64_t>(largest, bytes(piece.problem));
  return largest;
}

}  // namespace fourfold::kernels
