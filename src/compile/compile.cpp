#include "compile/compile.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compile/keep_rounded.h"
#include "compile/persistent_region.h"

namespace fourfold::compile {
namespace {

/// Compiles for ranks of one mesh. What is the same for all of them is made once, but where
/// somebody looks on: an observer sees all passes of each rank.
class MeshCompiler {
 public:
  MeshCompiler(const graph::ModelGraphs& model, const plan::Plan& plan, MeshId mesh,
               const machine::Target& target, const Transfers& transfers,
               const Departures& departures, const PassOptions& options)
      : plan_(plan),
        target_(target),
        transfers_(transfers),
        departures_(departures),
        options_(options),
        persistent_(persistent_region(
            model, plan, mesh,
            keeps_rounded() ? rounded_weights(model, plan, mesh) : std::set<std::string>())) {
    for (const graph::Graph& graph : model.graphs)
      if (graph.mesh == mesh && (!options.only || graph.kind == *options.only))
        graphs_.push_back({&graph, std::nullopt});
  }

  /// No rank comes after the last one: what was made for all is used up, to need no more memory.
  program::Bundle compile_for(Rank rank, bool is_last) {
    program::Bundle bundle;
    bundle.persistent_bytes = persistent_.bytes;
    const PassContext context{plan_, target_, persistent_, transfers_, departures_, rank};
    for (Entry& entry : graphs_) {
      if (!entry.form || options_.observer)
        entry.form = run_graph_passes(*entry.graph, context, options_);
      Form form = is_last ? *std::exchange(entry.form, std::nullopt) : *entry.form;
      bundle.programs.push_back(run_program_passes(std::move(form), context, options_));
      bundle.transient_bytes =
          std::max(bundle.transient_bytes, bundle.programs.back().transient_bytes);
    }
    return bundle;
  }

 private:
  struct Entry {
    const graph::Graph* graph = nullptr;
    std::optional<Form> form;  // what its own passes made of it
  };

  bool keeps_rounded() const {
    return std::ranges::find(options_.without, "keep_rounded") == options_.without.end();
  }

  const plan::Plan& plan_;
  const machine::Target& target_;
  const Transfers& transfers_;
  const Departures& departures_;
  const PassOptions& options_;
  PersistentRegion persistent_;
  std::vector<Entry> graphs_;
};

/// Ranks of a mesh that send and receive the same parts of their tensors in the same order, from
/// and to whomever. `first` is the one that is compiled.
struct Class {
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

/// All classes of a mesh, in the order of their first ranks, each with what these exchange.
using Classes = std::vector<std::pair<std::vector<Exchange>, Class>>;

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
  const Departures departures(plan);
  for (std::size_t m = 0; m < plan.meshes.size(); ++m) {
    Classes classes;
    std::vector<std::size_t> class_of;  // by place on the mesh
    for (const Rank rank : plan.meshes[m].ranks) {
      std::vector<Exchange> exchanges = exchanges_of(plan, transfers, rank);
      const auto place = std::ranges::find(classes, exchanges, &Classes::value_type::first);
      class_of.push_back(static_cast<std::size_t>(place - classes.begin()));
      if (place == classes.end()) classes.emplace_back(std::move(exchanges), Class{rank, {}});
    }
    const std::size_t first_class = job.classes.size();
    MeshCompiler compiler(model, plan, MeshId(m), target, transfers, departures, options);
    for (auto& [exchanges, its] : classes) {
      job.classes.push_back(compiler.compile_for(its.first, &its == &classes.back().second));
      its.channels = program::channels_of(job.classes.back());
    }
    auto place = class_of.cbegin();
    for (const Rank rank : plan.meshes[m].ranks) {
      job.ranks[rank.index()] = {static_cast<std::uint32_t>(first_class + *place),
                                 peers_of(plan, transfers, classes[*place].second, rank)};
      ++place;
    }
  }
  return job;
}

}  // namespace fourfold::compile
