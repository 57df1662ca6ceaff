#include "compile/receipts.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <variant>

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

/// Ordered by mesh that sends, and as that one sends; each before the task that it should at the
/// latest stand before.
std::vector<Arrival> arrivals_by_sender(MeshId mesh, const plan::Plan& plan, op::ProgramKind graph,
                                        const std::vector<MeshOrder>& orders) {
  const MeshOrder& own = orders[mesh.index()];
  const std::vector<std::size_t> before = tasks_before(own.tasks());
  std::vector<Arrival> arrivals;
  for (std::size_t e = 0; e < plan.edges.size(); ++e) {
    const plan::Edge& edge = plan.edges[e];
    if (edge.graph != graph || edge.to != mesh) continue;
    const bool is_once = edge.goes_once_a_step || edge.phase == graph::Phase::update;
    const pipeline::TaskKind kind = task_of(edge.phase);
    for (std::int64_t micro = 0; micro < (is_once ? 1 : own.micros()); ++micro) {
      const std::size_t reader = own.place(kind, edge.to_stage, micro);
      arrivals.push_back({e, micro, edge.from.index(),
                          orders[edge.from.index()].place(kind, edge.from_stage, micro), reader,
                          plan.overlap.send_recv ? before[reader] : reader});
    }
  }
  std::ranges::sort(arrivals, {}, [](const Arrival& arrival) {
    return std::tuple(arrival.from, arrival.sender, arrival.edge);
  });
  return arrivals;
}

}  // namespace

std::vector<MeshOrder> mesh_orders(const plan::Plan& plan, op::ProgramKind graph) {
  std::vector<MeshOrder> orders;
  for (std::size_t mesh = 0; mesh < plan.meshes.size(); ++mesh)
    orders.emplace_back(plan, graph, MeshId(mesh));
  return orders;
}

std::vector<Arrival> arrivals_on(MeshId mesh, const plan::Plan& plan, op::ProgramKind graph,
                                 const std::vector<MeshOrder>& orders) {
  std::vector<Arrival> arrivals = arrivals_by_sender(mesh, plan, graph, orders);
  struct Turn {
    std::size_t before = 0, reader = 0;  // the reader of this or of what is sent later, the first
    std::size_t index = 0;
  };
  std::vector<Turn> turns(arrivals.size());
  for (std::size_t i = arrivals.size(); i-- > 0;) {
    turns[i] = {arrivals[i].before, arrivals[i].reader, i};
    if (i + 1 == arrivals.size() || arrivals[i].from != arrivals[i + 1].from) continue;
    turns[i].before = std::min(turns[i].before, turns[i + 1].before);
    turns[i].reader = std::min(turns[i].reader, turns[i + 1].reader);
  }
  std::ranges::stable_sort(turns, {},
                           [](const Turn& turn) { return std::tuple(turn.before, turn.reader); });
  std::vector<Arrival> result;
  for (const Turn& turn : turns) {
    result.push_back(arrivals[turn.index]);
    result.back().before = turn.before;
  }
  return result;
}

std::vector<Receipt> receipts_of(const ShardedGraph& graph, const plan::Plan& plan) {
  std::map<std::size_t, std::size_t> steps;  // by edge
  for (std::size_t step = 0; step < graph.steps.size(); ++step)
    if (const auto* handover = std::get_if<Handover>(&graph.steps[step]);
        handover != nullptr && !handover->sends)
      steps.emplace(handover->edge, step);
  std::vector<Receipt> receipts;
  if (steps.empty()) return receipts;
  for (const Arrival& arrival :
       arrivals_on(graph.mesh, plan, graph.kind, mesh_orders(plan, graph.kind)))
    receipts.push_back({steps.at(arrival.edge), arrival.micro, arrival.reader, arrival.before});
  return receipts;
}

}  // namespace fourfold::compile
