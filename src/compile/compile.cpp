#include "compile/compile.h"

#include <algorithm>

#include "compile/choose_kernels.h"
#include "compile/choose_layouts.h"
#include "compile/fuse_casts.h"
#include "compile/fuse_neighbours.h"
#include "compile/fuse_products.h"
#include "compile/fuse_sums.h"
#include "compile/fuse_update.h"
#include "compile/insert_conversions.h"
#include "compile/insert_waits.h"
#include "compile/lower.h"
#include "compile/persistent_layout.h"
#include "compile/place_buffers.h"
#include "compile/recompute.h"
#include "compile/use_cut_forms.h"
#include "program/bind.h"

namespace fourfold::compile {
namespace {

/// A stage's program knows the meshes of all stages; so far its own was the only one.
void name_meshes(program::Program& program, const plan::Plan& plan) {
  if (plan.stages.empty()) return;
  const MeshId own(plan.stage);
  program.meshes = plan.stages;
  for (program::Buffer& buffer : program.buffers) buffer.sharding.mesh = own;
  for (program::Group& group : program.groups) group.mesh = own;
}

program::Program compile_graph(const graph::Graph& graph, const plan::Plan& plan,
                               const machine::Target& target, const PersistentLayout& persistent,
                               Rank rank) {
  CutGraph cut = use_cut_forms(graph, plan);
  const Recomputed recomputed = recompute(std::move(cut.graph), plan.checkpointing);
  const ShardedGraph sharded =
      choose_layouts(insert_conversions(recomputed, cut.shardings, plan), plan);
  program::Program program = lower(sharded, plan, persistent, rank);
  program = fuse_neighbours(std::move(program), target);
  program = fuse_products(std::move(program), target);
  program = fuse_sums(std::move(program), target);
  program = fuse_update(std::move(program), target);
  program = fuse_casts(std::move(program), target);
  program = choose_kernels(std::move(program), target);
  program = place_buffers(std::move(program));
  program = insert_waits(std::move(program));
  name_meshes(program, plan);
  program::bind(program, rank);
  return program;
}

}  // namespace

program::Bundle compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                        const machine::Target& target, std::optional<Rank> rank) {
  const PersistentLayout persistent = persistent_layout(model, plan);
  program::Bundle bundle;
  bundle.persistent_bytes = persistent.bytes;
  for (const graph::Graph& graph : model.graphs) {
    bundle.programs.push_back(
        compile_graph(graph, plan, target, persistent, rank.value_or(plan.meshes[0].ranks[0])));
    bundle.transient_bytes =
        std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
  }
  return bundle;
}

}  // namespace fourfold::compile
