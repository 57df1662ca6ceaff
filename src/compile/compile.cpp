#include "compile/compile.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compile/keep_rounded.h"
#include "compile/persistent_region.h"

namespace fourfold::compile {
namespace {

/// The bundle of one rank of a mesh.
program::Bundle compile_for(const graph::ModelGraphs& model, const plan::Plan& plan, MeshId mesh,
                            const machine::Target& target, const Transfers& transfers, Rank rank,
                            const PassOptions& options) {
  const bool keeps = std::ranges::find(options.without, "keep_rounded") == options.without.end();
  const PersistentRegion persistent = persistent_region(
      model, plan, mesh, keeps ? rounded_weights(model, plan, mesh) : std::set<std::string>());
  program::Bundle bundle;
  bundle.persistent_bytes = persistent.bytes;
  for (const graph::Graph& graph : model.graphs) {
    if (graph.mesh != mesh || (!options.only.empty() && graph.name != options.only)) continue;
    bundle.programs.push_back(
        run_passes(graph, {plan, target, persistent, transfers, rank}, options));
    bundle.transient_bytes =
        std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
  }
  return bundle;
}

/// Ranks of a mesh that send and receive the same parts of their tensors in the same order, from
/// and to whomever. `first` is the one that is compiled.
struct Class {
  std::uint32_t index = 0;
  Rank first;
  std::vector<program::Channel> channels;
};

/// What a rank does along an edge: its messages, each with the number of its peer among those of
/// the edge, in the order in which they are first met.
struct Exchange {
  std::size_t edge = 0;
  std::vector<std::tuple<bool, std::size_t, reshard::Slice, bool>> messages;
  bool operator==(const Exchange&) const = default;
};

/// By edge in which the rank takes part. Ranks of one class have equal ones.
std::vector<Exchange> exchanges_of(const plan::Plan& plan, const Transfers& transfers, Rank rank) {
  std::vector<Exchange> exchanges;
  for (std::size_t edge = 0; edge < plan.edges.size(); ++edge) {
    const std::vector<Message>& messages = transfers.messages(edge, rank);
    if (messages.empty()) continue;
    Exchange exchange{edge, {}};
    std::vector<Rank> peers;
    for (const Message& message : messages) {
      const auto place = std::ranges::find(peers, message.peer);
      exchange.messages.emplace_back(message.sends, place - peers.begin(), message.slice,
                                     message.is_turn);
      if (place == peers.end()) peers.push_back(message.peer);
    }
    exchanges.push_back(std::move(exchange));
  }
  return exchanges;
}

/// The peers of a rank of the class, in the order of its channels.
std::vector<Rank> peers_of(const plan::Plan& plan, const Transfers& transfers, const Class& its,
                           Rank rank) {
  std::vector<Rank> peers;
  for (const program::Channel& channel : its.channels) {
    const auto [edge, is_turn] = edge_of_tag(channel.tag, plan);
    const std::vector<Message>& messages = transfers.messages(edge, its.first);
    const auto first = std::ranges::find_if(messages, [&](const Message& message) {
      return message.sends == channel.sends && message.peer == channel.peer &&
             message.is_turn == is_turn;
    });
    const auto place = static_cast<std::size_t>(first - messages.begin());
    peers.push_back(transfers.messages(edge, rank).at(place).peer);
  }
  return peers;
}

}  // namespace

program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target, const PassOptions& options) {
  program::Job job;
  job.ranks.resize(static_cast<std::size_t>(plan.world));
  const Transfers transfers(plan);
  for (std::size_t m = 0; m < plan.meshes.size(); ++m) {
    std::vector<std::pair<std::vector<Exchange>, Class>> classes;
    for (const Rank rank : plan.meshes[m].ranks) {
      std::vector<Exchange> exchanges = exchanges_of(plan, transfers, rank);
      auto place = std::ranges::find(classes, exchanges, &decltype(classes)::value_type::first);
      if (place == classes.end()) {
        classes.emplace_back(std::move(exchanges),
                             Class{static_cast<std::uint32_t>(job.classes.size()), rank, {}});
        place = classes.end() - 1;
        job.classes.push_back(
            compile_for(model, plan, MeshId(m), target, transfers, rank, options));
        place->second.channels = program::channels_of(job.classes.back());
      }
      const Class& its = place->second;
      job.ranks[rank.index()] = {its.index, peers_of(plan, transfers, its, rank)};
    }
  }
  return job;
}

}  // namespace fourfold::compile
