#include "job/recomputed_flops.h"

#include <vector>

#include "compile/recompute.h"
#include "op/table.h"

namespace fourfold::job {

namespace {

/// The flops of what is computed twice in a micro-batch, over all ranks of a mesh.
double flops_again(const graph::Graph& train, const plan::Checkpointing& checkpointing) {
  const compile::Recomputed made = compile::recompute(train, checkpointing);
  double flops_of_micro = 0;
  std::vector<bool> is_computed(made.graph.nodes.size(), false);  // by the index of the origin
  for (std::size_t i = 0; i < made.graph.nodes.size(); ++i) {
    const graph::Node& node = made.graph.nodes[i];
    const std::size_t origin = made.node_origin[i];
    if (is_computed[origin] && op::is_counted_in_flops(op::work_class(node.op))) {
      std::vector<Shape> shapes = made.graph.shapes(node.reads);
      for (const Shape& shape : made.graph.shapes(node.outputs)) shapes.push_back(shape);
      flops_of_micro += op::flops(node.op, shapes);
    }
    is_computed[origin] = true;
  }
  return flops_of_micro;
}

}  // namespace

std::optional<double> recomputed_flops_per_step(const Job& job) {
  const plan::Plan plan = plan::with_fit(job.plan, job.fit);
  if (!plan.repeats_any()) return std::nullopt;
  double flops_of_micro = 0;
  for (std::size_t mesh = 0; mesh < job.plan.meshes.size(); ++mesh)
    flops_of_micro += flops_again(job.graphs.at(op::ProgramKind::train, MeshId(mesh)),
                                  plan.checkpointing_on(MeshId(mesh)));
  return flops_of_micro * static_cast<double>(job.plan.batching.accumulation);
}

}  // namespace fourfold::job
