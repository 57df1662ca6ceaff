// A fused row as its parts, one after another: what defines it, and what runs where a backend has
// no kernel that does all of it at once.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace fourfold::kernels {

/// A part of a problem: which of the row's operands it has.
struct PartProblem {
  Problem problem;
  std::vector<std::size_t> operands;
};

inline std::vector<PartProblem> part_problems(const Problem& whole) {
  std::vector<PartProblem> list;
  for (op::Part& part : op::parts(whole.op)) {
    Problem own{part.op, whole.dtype, {}, whole.threads};
    for (const std::size_t operand : part.operands) own.shapes.push_back(whole.shapes[operand]);
    list.push_back({std::move(own), std::move(part.operands)});
  }
  return list;
}

/// Kernels of the parts, `prepare(problem)` giving that of each; Kernel is called with its
/// operands, the row's workspace and whatever else a call is given.
template <class Kernel>
class PartKernels {
 public:
  template <class Prepare>
  PartKernels(const Problem& whole, const Prepare& prepare) {
    for (PartProblem& part : part_problems(whole)) {
      const std::size_t count = part.operands.size();
      steps_.push_back(
          {prepare(part.problem), std::move(part.operands), std::vector<Tensor>(count)});
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
Run run_parts(const Problem& whole, const Prepare& prepare) {
  auto kernels = std::make_shared<PartKernels<Run>>(whole, prepare);
  return [kernels](Tensors operands, Workspace workspace) { kernels->run(operands, workspace); };
}

/// The largest of what the parts need, `bytes(problem)` giving that of each.
template <class Bytes>
std::int64_t largest_workspace(const Problem& whole, const Bytes& bytes) {
  std::int64_t largest = 0;
  for (const PartProblem& part : part_problems(whole))
    largest = std::max<std::int64_t>(largest, bytes(part.problem));
  return largest;
}

}  // namespace fourfold::kernels
