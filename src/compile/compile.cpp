#include "compile/compile.h"

#include <algorithm>
#include <map>

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

/// The bundle of one rank.
program::Bundle compile_for(const graph::ModelGraphs& model, const plan::Plan& plan,
                            const machine::Target& target, Rank rank) {
  const PersistentLayout persistent = persistent_layout(model, plan);
  program::Bundle bundle;
  bundle.persistent_bytes = persistent.bytes;
  for (const graph::Graph& graph : model.graphs) {
    bundle.programs.push_back(compile_graph(graph, plan, target, persistent, rank));
    bundle.transient_bytes =
        std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
  }
  return bundle;
}

/// Ranks of a stage with equally many messages. `first` is the place, in its mesh, of the rank that
/// is compiled.
struct Class {
  std::uint32_t index = 0;
  std::size_t first = 0;
  std::vector<program::Channel> channels;
};

/// How many messages of each transfer the `j`-th rank of the plan's stage takes part in.
std::vector<std::size_t> message_counts(const plan::Plan& plan, std::size_t j) {
  std::vector<std::size_t> counts;
  for (const plan::Transfer& transfer : plan.transfers) {
    const std::size_t senders = plan.stages[transfer.from].ranks.size(),
                      receivers = plan.stages[transfer.to].ranks.size();
    std::size_t count = transfer.to == plan.stage ? 1 : 0;
    for (std::size_t k = j; transfer.from == plan.stage && k < receivers; k += senders) ++count;
    counts.push_back(count);
  }
  return counts;
}

/// The peers of the `j`-th rank of a stage: its first receiver is the `j`-th rank over there, the
/// others lie as far behind one another as there are senders.
std::vector<Rank> peers_of(const plan::Plan& plan, const Class& its, std::size_t j) {
  std::vector<Rank> peers;
  for (const program::Channel& channel : its.channels) {
    const plan::Transfer& transfer = plan.transfers[static_cast<std::size_t>(channel.tag)];
    const Ranks &senders = plan.stages[transfer.from].ranks,
                &receivers = plan.stages[transfer.to].ranks;
    peers.push_back(channel.sends
                        ? receivers[receivers.position(channel.peer).value() - its.first + j]
                        : senders[j % senders.size()]);
  }
  return peers;
}

}  // namespace

program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target) {
  program::Job job;
  job.classes = {compile_for(model, plan, target, plan.meshes[0].ranks.front())};
  job.ranks.resize(static_cast<std::size_t>(plan.world));
  return job;
}

program::Job compile(const std::vector<plan::StagePlan>& stages, const machine::Target& target) {
  program::Job job;
  for (const plan::StagePlan& stage : stages) {
    std::map<std::vector<std::size_t>, Class> classes;  // by how many messages each transfer has
    for (std::size_t j = 0; j < stage.plan.meshes[0].ranks.size(); ++j) {
      const auto [place, is_first] = classes.try_emplace(message_counts(stage.plan, j));
      Class& its = place->second;
      if (is_first) {
        const Rank rank = stage.plan.meshes[0].ranks[j];
        its = {static_cast<std::uint32_t>(job.classes.size()), j, {}};
        job.classes.push_back(compile_for(stage.model, stage.plan, target, rank));
        its.channels = program::channels_of(job.classes.back());
      }
      job.ranks.push_back({its.index, peers_of(stage.plan, its, j)});
    }
  }
  return job;
}

}  // namespace fourfold::compile
