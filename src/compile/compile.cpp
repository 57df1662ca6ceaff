#include "compile/compile.h"

#include <algorithm>

#include "compile/choose_kernels.h"
#include "compile/insert_waits.h"
#include "compile/lower.h"
#include "compile/persistent_layout.h"
#include "compile/place_buffers.h"
#include "compile/recompute.h"

namespace fourfold::compile {
namespace {

program::Program compile_graph(const graph::Graph& graph, const plan::Plan& plan,
                               const machine::Target& target, const PersistentLayout& persistent) {
  const Recomputed recomputed = recompute(graph, plan.checkpointing);
  program::Program program = lower(recomputed, plan, persistent);
  program = choose_kernels(std::move(program), target);
  program = place_buffers(std::move(program));
  return insert_waits(std::move(program));
}

}  // namespace

program::Bundle compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                        const machine::Target& target) {
  const PersistentLayout persistent = persistent_layout(model, plan);
  program::Bundle bundle;
  bundle.persistent_bytes = persistent.bytes;
  for (const graph::Graph& graph : model.graphs) {
    bundle.programs.push_back(compile_graph(graph, plan, target, persistent));
    bundle.transient_bytes =
        std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
  }
  return bundle;
}

}  // namespace fourfold::compile
