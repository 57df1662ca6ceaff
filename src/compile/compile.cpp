#include "compile/compile.h"

#include <algorithm>
#include <map>

#include "compile/persistent_layout.h"

namespace fourfold::compile {
namespace {

/// The bundle of one rank.
program::Bundle compile_for(const graph::ModelGraphs& model, const plan::Plan& plan,
                            const machine::Target& target, Rank rank, const PassOptions& options) {
  const PersistentLayout persistent = persistent_layout(model, plan);
  program::Bundle bundle;
  bundle.persistent_bytes = persistent.bytes;
  for (const graph::Graph& graph : model.graphs) {
    bundle.programs.push_back(run_passes(graph, {plan, target, persistent, rank}, options));
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
                     const machine::Target& target, const PassOptions& options) {
  program::Job job;
  job.classes = {compile_for(model, plan, target, plan.meshes[0].ranks.front(), options)};
  job.ranks.resize(static_cast<std::size_t>(plan.world));
  return job;
}

program::Job compile(const std::vector<plan::StagePlan>& stages, const machine::Target& target,
                     const PassOptions& options) {
  program::Job job;
  for (const plan::StagePlan& stage : stages) {
    std::map<std::vector<std::size_t>, Class> classes;  // by how many messages each transfer has
    for (std::size_t j = 0; j < stage.plan.meshes[0].ranks.size(); ++j) {
      const auto [place, is_first] = classes.try_emplace(message_counts(stage.plan, j));
      Class& its = place->second;
      if (is_first) {
        const Rank rank = stage.plan.meshes[0].ranks[j];
        its = {static_cast<std::uint32_t>(job.classes.size()), j, {}};
        job.classes.push_back(compile_for(stage.model, stage.plan, target, rank, options));
        its.channels = program::channels_of(job.classes.back());
      }
      job.ranks.push_back({its.index, peers_of(stage.plan, its, j)});
    }
  }
  return job;
}

}  // namespace fourfold::compile
