// Reference kernels of fused rows: their parts, one after another.
#include <memory>
#include <utility>
#include <vector>

#include "kernels/reference/rows.h"

namespace fourfold::kernels::reference {
namespace {

struct Step {
  Run run;
  std::vector<std::size_t> operands;
  std::vector<Tensor> tensors;  // of a call, kept so that it does not allocate
};

Run prepare_parts(const op::Op& op, const Problem& problem) {
  auto steps = std::make_shared<std::vector<Step>>();
  for (op::Part& part : op::parts(op)) {
    Problem own{part.op, problem.dtype, {}, problem.threads};
    for (const std::size_t operand : part.operands) own.shapes.push_back(problem.shapes[operand]);
    const std::size_t count = part.operands.size();
    steps->push_back({prepare(own), std::move(part.operands), std::vector<Tensor>(count)});
  }
  return [steps](Tensors operands, Workspace) {
    for (Step& step : *steps) {
      for (std::size_t i = 0; i < step.operands.size(); ++i)
        step.tensors[i] = operands[step.operands[i]];
      step.run(step.tensors, {});
    }
  };
}

}  // namespace

Run prepare_row(const op::BiasGelu& op, const Problem& problem) {
  return prepare_parts(op, problem);
}
Run prepare_row(const op::AddLayerNorm& op, const Problem& problem) {
  return prepare_parts(op, problem);
}
Run prepare_row(const op::AddLayerNormGradient& op, const Problem& problem) {
  return prepare_parts(op, problem);
}
Run prepare_row(const op::CrossEntropyBoth& op, const Problem& problem) {
  return prepare_parts(op, problem);
}

}  // namespace fourfold::kernels::reference
