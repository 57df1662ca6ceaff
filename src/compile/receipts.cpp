#include "compile/receipts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <variant>

#include "compile/mesh_order.h"

namespace fourfold::compile {
namespace {

/// By task, the one of its kind before it; itself where there is none.
std::vector<std::size_t> tasks_before(const pipeline::Order& order) {
  std::map<pipeline::TaskKind, std::size_t> last;
  std::vector<std::size_t> result;
  for (std::size_t at = 0; at < order.size(); ++at) {
    const auto before = last.try_emplace(order[at].kind, at).first;
    result.push_back(before->second);
    before->second = at;
  }
  return result;
}

/// A receipt, and what its place among others depends on.
struct Arrival {
  Receipt receipt;
  std::size_t from = 0;              // mesh
  std::size_t sender = 0, edge = 0;  // the task there that sends it, and the edge
  std::size_t turn = 0;  // the reader of this or of what is sent later, the earliest of them
};

/// In any order, each before the task that it should at the latest stand before.
std::vector<Arrival> arrivals_of(const ShardedGraph& graph, const plan::Plan& plan) {
  std::vector<MeshOrder> orders;
  for (std::size_t mesh = 0; mesh < plan.meshes.size(); ++mesh)
    orders.emplace_back(plan, graph.name, MeshId(mesh));
  const MeshOrder& own = orders[graph.mesh.index()];
  const std::vector<std::size_t> before = tasks_before(own.tasks());
  std::vector<Arrival> arrivals;
  for (std::size_t step = 0; step < graph.steps.size(); ++step) {
    const auto* handover = std::get_if<Handover>(&graph.steps[step]);
    if (handover == nullptr || handover->sends) continue;
    const plan::Edge& edge = plan.edges[handover->edge];
    const bool is_once = edge.goes_once_a_step || edge.phase == graph::Phase::update;
    const pipeline::TaskKind kind = task_of(edge.phase);
    for (std::int64_t micro = 0; micro < (is_once ? 1 : own.micros()); ++micro) {
      const std::size_t reader = own.place(kind, edge.to_stage, micro);
      arrivals.push_back({{step, micro, reader, plan.overlap.send_recv ? before[reader] : reader},
                          edge.from.index(),
                          orders[edge.from.index()].place(kind, edge.from_stage, micro),
                          handover->edge,
                          reader});
    }
  }
  return arrivals;
}

}  // namespace

std::vector<Receipt> receipts_of(const ShardedGraph& graph, const plan::Plan& plan) {
  std::vector<Arrival> arrivals = arrivals_of(graph, plan);
  std::ranges::sort(arrivals, {}, [](const Arrival& arrival) {
    return std::tuple(arrival.from, arrival.sender, arrival.edge);
  });
  for (std::size_t i = arrivals.size(); i-- > 1;) {
    const Arrival& later = arrivals[i];
    Arrival& earlier = arrivals[i - 1];
    if (earlier.from != later.from) continue;
    earlier.turn = std::min(earlier.turn, later.turn);
    earlier.receipt.before = std::min(earlier.receipt.before, later.receipt.before);
  }
  std::ranges::stable_sort(arrivals, {}, [](const Arrival& arrival) {
    return std::tuple(arrival.receipt.before, arrival.turn);
  });
  std::vector<Receipt> receipts;
  for (const Arrival& arrival : arrivals) receipts.push_back(arrival.receipt);
  return receipts;
}

}  // namespace fourfold::compile
