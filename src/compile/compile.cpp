#include "compile/compile.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "compile/keep_rounded.h"
#include "compile/persistent_region.h"

namespace fourfold::compile {
namespace {

/// The bundle of one rank of a mesh.
program::Bundle compile_for(const graph::ModelGraphs& model, const plan::Plan& plan, MeshId mesh,
                            const machine::Target& target, Rank rank, const PassOptions& options) {
  const bool keeps = std::ranges::find(options.without, "keep_rounded") == options.without.end();
  const PersistentRegion persistent = persistent_region(
      model, plan, mesh, keeps ? rounded_weights(model, plan, mesh) : std::set<std::string>());
  program::Bundle bundle;
  bundle.persistent_bytes = persistent.bytes;
  for (const graph::Graph& graph : model.graphs) {
    if (graph.mesh != mesh || (!options.only.empty() && graph.name != options.only)) continue;
    bundle.programs.push_back(run_passes(graph, {plan, target, persistent, rank}, options));
    bundle.transient_bytes =
        std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
  }
  return bundle;
}

/// Ranks of a mesh with equally many messages. `first` is the place, in its mesh, of the rank that
/// is compiled.
struct Class {
  std::uint32_t index = 0;
  std::size_t first = 0;
  std::vector<program::Channel> channels;
};

/// In how many messages along each edge the `j`-th rank of a mesh takes part.
std::vector<std::size_t> message_counts(const plan::Plan& plan, MeshId mesh, std::size_t j) {
  std::vector<std::size_t> counts;
  for (const plan::Edge& edge : plan.edges) {
    const std::size_t senders = plan.meshes[edge.from.index()].ranks.size(),
                      receivers = plan.meshes[edge.to.index()].ranks.size();
    std::size_t count = edge.to == mesh ? 1 : 0;
    for (std::size_t k = j; edge.from == mesh && k < receivers; k += senders) ++count;
    counts.push_back(count);
  }
  return counts;
}

/// The peers of the `j`-th rank of a mesh: its first receiver is the `j`-th rank over there, the
/// others lie as far from one another as there are senders.
std::vector<Rank> peers_of(const plan::Plan& plan, const Class& its, std::size_t j) {
  std::vector<Rank> peers;
  for (const program::Channel& channel : its.channels) {
    const plan::Edge& edge = plan.edges[static_cast<std::size_t>(channel.tag)];
    const Ranks &senders = plan.meshes[edge.from.index()].ranks,
                &receivers = plan.meshes[edge.to.index()].ranks;
    peers.push_back(channel.sends
                        ? receivers[receivers.position(channel.peer).value() - its.first + j]
                        : senders[j % senders.size()]);
  }
  return peers;
}

}  // namespace

program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target, const PassOptions& options) {
  program::Job job;
  job.ranks.resize(static_cast<std::size_t>(plan.world));
  for (std::size_t m = 0; m < plan.meshes.size(); ++m) {
    const Ranks& ranks = plan.meshes[m].ranks;
    std::map<std::vector<std::size_t>, Class> classes;  // by how many messages each edge has
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      const auto [place, is_first] = classes.try_emplace(message_counts(plan, MeshId(m), j));
      Class& its = place->second;
      if (is_first) {
        its = {static_cast<std::uint32_t>(job.classes.size()), j, {}};
        job.classes.push_back(compile_for(model, plan, MeshId(m), target, ranks[j], options));
        its.channels = program::channels_of(job.classes.back());
      }
      job.ranks[ranks[j].index()] = {its.index, peers_of(plan, its, j)};
    }
  }
  return job;
}

}  // namespace fourfold::compile
