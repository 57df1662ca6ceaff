#include "job/graphs.h"

#include <algorithm>
#include <initializer_list>
#include <variant>

#include "graph/update.h"
#include "model/model.h"
#include "plan/plan.h"

namespace fourfold::job {
namespace {

void keep_graphs(graph::ModelGraphs& model, std::initializer_list<op::ProgramKind> kinds) {
  std::erase_if(model.graphs, [&](const graph::Graph& graph) {
    return std::ranges::find(kinds, graph.kind) == kinds.end();
  });
}

graph::ModelGraphs build_with(decltype(model::build_serial)& build, const config::Settled& settled,
                              Graphs which) {
  const plan::Batching b = std::get<plan::Batching>(plan::solve_batching(settled.plan()));
  const data::DataSpec data = settled.data();
  const bool writes = which != Graphs::of_run || settled.sample().tokens > 0;
  // A sample of a run looks at as many tokens as one of the training, so that its cache is no
  // larger.
  const model::Spec spec = which == Graphs::of_run
                               ? model::with_longest_text(settled.model(), b.length)
                               : settled.model();
  graph::ModelGraphs model =
      build(spec,
            {b.samples(), b.length, b.global_batch, data.mask_documents, data.restart_positions,
             b.chunks},
            settled.optimizer(), writes ? model::Writes::samples : model::Writes::nothing);
  if (which == Graphs::of_run) graph::read_averages(model);
  if (which == Graphs::generation)
    keep_graphs(model,
                {op::ProgramKind::prefill, op::ProgramKind::decode, op::ProgramKind::denoise});
  if (which == Graphs::evaluation)
    keep_graphs(model, {op::ProgramKind::evaluate, op::ProgramKind::bound});
  return model;
}

}  // namespace

graph::ModelGraphs build_graphs(const config::Settled& settled, Graphs which) {
  return build_with(model::build, settled, which);
}

graph::ModelGraphs build_serial_graphs(const config::Settled& settled, Graphs which) {
  return build_with(model::build_serial, settled, which);
}

}  // namespace fourfold::job
