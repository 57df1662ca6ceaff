#include "compile/transfers.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/error.h"
#include "op/sharding.h"
#include "reshard/lower.h"
#include "reshard/placement.h"
#include "reshard/reshard_plan.h"

namespace fourfold::compile {
namespace {

/// Below this a chain of ranks takes longer than all messages from their own senders.
constexpr std::int64_t few_bytes = 4096;

/// What is assumed of links: a network of 10 Gbit/s, and memory that several ranks copy through.
constexpr reshard::Links links = {{20e-6, 1.25e9}, {20e-6, 10e9}};

std::vector<reshard::HostId> hosts_of(const plan::Plan& plan) {
  std::vector<reshard::HostId> hosts(static_cast<std::size_t>(plan.world));
  const auto per_host = static_cast<std::size_t>(plan.reshard.ranks_per_host.value_or(plan.world));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    hosts[rank] = reshard::HostId(rank / per_host);
  return hosts;
}

std::int64_t element_bytes(const plan::Plan& plan, const plan::Edge& edge) {
  return size_bytes(op::element_dtype(edge.element, plan.compute));
}

/// All of the value to each receiver, from senders in turn.
std::vector<std::vector<Message>> copies(const plan::Plan& plan, const plan::Edge& edge) {
  const Ranks &from = plan.meshes[edge.from.index()].ranks,
              &to = plan.meshes[edge.to.index()].ranks;
  const std::int64_t bytes = edge.shape.elements() * element_bytes(plan, edge);
  const reshard::Slice all{0, 1, bytes, bytes};
  std::vector<std::vector<Message>> result(static_cast<std::size_t>(plan.world));
  for (std::size_t j = 0; j < to.size(); ++j) {
    const Rank sender = from[j % from.size()];
    result[sender.index()].push_back({true, to[j], all});
    result[to[j].index()].push_back({false, sender, all});
  }
  return result;
}

/// What a rank has of a value, and the shape that it stores it in.
struct Held {
  const reshard::Box* box = nullptr;
  Shape stored;
};

/// By the strategy of the plan. A group of receivers gathers its shares in messages round a ring;
/// `signal` sends a byte for a box, so that what a value holds does not arrive, and no verifier
/// takes such programs.
class Resharding {
 public:
  Resharding(const plan::Plan& plan, const plan::Edge& edge)
      : plan_(plan), edge_(edge), bytes_(element_bytes(plan, edge)) {
    for (const bool is_source : {true, false}) {
      const op::Sharding& sharding = is_source ? edge.sent : edge.received;
      const Mesh& mesh = plan.meshes[sharding.mesh.index()];
      (is_source ? from_ : to_) = reshard::placement_of(edge.shape, sharding, mesh);
      (is_source ? from_stored_ : to_stored_) = op::local_shape(edge.shape, sharding, mesh);
    }
  }

  std::vector<std::vector<Message>> run() const {
    const std::vector<reshard::HostId> hosts = hosts_of(plan_);
    const reshard::ReshardPlan resharding = reshard::make_plan(from_, to_, hosts,
                                                               {.strategy = plan_.reshard.strategy,
                                                                .chunks = plan_.reshard.chunks,
                                                                .links = links,
                                                                .element_bytes = bytes_,
                                                                .limits = {}});
    const auto steps = reshard::lower(resharding, hosts,
                                      takes_turns() ? reshard::Turns::kept : reshard::Turns::free,
                                      reshard::Gathers::by_ring);
    std::vector<std::vector<Message>> result(static_cast<std::size_t>(plan_.world));
    for (std::size_t rank = 0; rank < result.size(); ++rank)
      for (const reshard::Step& step : steps[rank]) add(step, Rank(rank), result[rank]);
    return result;
  }

 private:
  /// Ranks that exchange something in every layer have nothing of each other's turns: all are as
  /// slow as the one whose turn it is.
  bool takes_turns() const {
    return plan_.reshard.strategy == reshard::Strategy::broadcast && plan_.overlap.send_recv &&
           is_cut_on_data_alone(edge_.sent) && is_cut_on_data_alone(edge_.received);
  }

  bool is_cut_on_data_alone(const op::Sharding& sharding) const {
    const AxisId data = plan::axes_of(plan_.meshes[sharding.mesh.index()]).data;
    return std::ranges::all_of(sharding.dims, [&](const op::Cuts& cuts) {
      return std::ranges::all_of(cuts, [&](const op::Cut& cut) { return cut.axis == data; });
    });
  }

  void add(const reshard::Step& step, Rank rank, std::vector<Message>& messages) const {
    require(step.kind == reshard::StepKind::send || step.kind == reshard::StepKind::receive,
            "stages have no rank in common, and gather in messages");
    const bool sends = step.kind == reshard::StepKind::send;
    if (step.is_byte)
      messages.push_back({sends, step.peer, {0, 1, 1, 1}, !is_signal()});
    else
      add(step.box, sends, step.peer, held_by(rank), held_by(step.peer), messages);
  }

  /// A message for each stretch of the box that is one slice on both sides, in the order of the
  /// box.
  void add(const reshard::Box& box, bool sends, Rank peer, const Held& here, const Held& there,
           std::vector<Message>& messages) const {
    const auto slices = reshard::slices_of(box, *here.box, here.stored, bytes_);
    if (slices.size() <= 1 &&
        reshard::slices_of(box, *there.box, there.stored, bytes_).size() <= 1) {
      for (const reshard::Slice& slice : slices) messages.push_back({sends, peer, slice});
      return;
    }
    const auto dim = std::ranges::find_if(box, [](const auto& range) { return range.size() > 1; });
    for (std::int64_t index = dim->begin; index < dim->end; ++index) {
      reshard::Box one = box;
      one[static_cast<std::size_t>(dim - box.begin())] = {index, index + 1};
      add(one, sends, peer, here, there, messages);
    }
  }

  bool is_signal() const { return plan_.reshard.strategy == reshard::Strategy::signal; }

  Held held_by(Rank rank) const {
    if (const auto place = from_.ranks.position(rank)) return {&from_.boxes[*place], from_stored_};
    return {&to_.boxes[to_.ranks.position(rank).value()], to_stored_};
  }

  const plan::Plan& plan_;
  const plan::Edge& edge_;
  std::int64_t bytes_;
  reshard::Placement from_, to_;
  Shape from_stored_, to_stored_;
};

/// Edges that are carried out alike.
auto key_of(const plan::Plan& plan, const plan::Edge& edge) {
  return std::tuple(edge.from.index(), edge.to.index(), to_string(edge.shape),
                    element_bytes(plan, edge),
                    op::to_string(edge.shape, edge.sent, plan.meshes[edge.from.index()]),
                    op::to_string(edge.shape, edge.received, plan.meshes[edge.to.index()]));
}

}  // namespace

std::int64_t tag_of(std::size_t edge, bool is_turn, const plan::Plan& plan) {
  return static_cast<std::int64_t>(is_turn ? plan.edges.size() + edge : edge);
}

TaggedEdge edge_of_tag(std::int64_t tag, const plan::Plan& plan) {
  const auto number = static_cast<std::size_t>(tag);
  return {number % plan.edges.size(), number >= plan.edges.size()};
}

Transfers::Transfers(const plan::Plan& plan) {
  std::map<decltype(key_of(plan, plan.edges.front())), std::shared_ptr<const ByRank>> known;
  for (const plan::Edge& edge : plan.edges) {
    std::shared_ptr<const ByRank>& its = known[key_of(plan, edge)];
    if (its == nullptr) {
      const bool is_whole = edge.sent.replicated() && edge.received.replicated(),
                 is_small = edge.shape.elements() * element_bytes(plan, edge) <= few_bytes;
      its = std::make_shared<const ByRank>(is_whole && is_small ? copies(plan, edge)
                                                                : Resharding(plan, edge).run());
    }
    edges_.push_back(its);
  }
}

const std::vector<Message>& Transfers::messages(std::size_t edge, Rank rank) const {
  return edges_[edge]->at(rank.index());
}

}  // namespace fourfold::compile
