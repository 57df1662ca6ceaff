#include "search/layout_costs.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compile/choose_blocks.h"
#include "compile/conversion_path.h"
#include "compile/recompute.h"
#include "search/demand.h"

namespace fourfold::search {

using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Sharding;

LayoutCosts::LayoutCosts(const graph::Graph& train, const LayoutSetting& setting, Pricer& pricer)
    : train_(train),
      setting_(setting),
      pricer_(pricer),
      updates_(train.values.size() + 1),
      is_backward_(train.values.size()),
      done_(train.nodes.size(), 1),
      stretches_(train.values.size(), 1) {
  for (const Node& node : train.nodes)
    for (const ValueId id : node.outputs) is_backward_[id.index()] = node.phase == Phase::backward;
  for (std::size_t node = 0; node < train.nodes.size(); ++node) {
    if (train.nodes[node].phase != Phase::update) continue;
    std::size_t parameter = train.values.size();
    for (const auto* list : {&train.nodes[node].reads, &train.nodes[node].outputs})
      for (const ValueId id : *list) {
        const Value& of = train.value(id);
        if (of.role == ValueRole::parameter) parameter = id.index();
        if (of.role == ValueRole::gradient && of.gradient_of) parameter = of.gradient_of->index();
      }
    updates_[parameter].push_back(node);
  }
  find_repetitions();
}

/// As recompute and insert_conversions of compile have it.
void LayoutCosts::find_repetitions() {
  const plan::Checkpointing& checkpointing = setting_.checkpointing;
  const compile::Recomputed recomputed = compile::recompute(train_, checkpointing);
  std::ranges::fill(done_, 0);
  std::int64_t layers = 0;
  for (const Node& node : train_.nodes) layers = std::max(layers, node.layer.value_or(-1) + 1);
  const auto is_cached = [&](const Node& node) {
    if (const auto& most = setting_.cached_gathers)
      return *most > 0 && (!node.layer || *node.layer >= layers - *most);
    return !(node.layer ? checkpointing.repeats(*node.layer) : checkpointing.repeats_any());
  };
  using Stretch = std::optional<std::pair<Phase, std::int64_t>>;  // none: of the whole micro-batch
  std::vector<std::set<Stretch>> read_in(train_.values.size());
  for (std::size_t i = 0; i < recomputed.graph.nodes.size(); ++i) {
    const Node& node = recomputed.graph.nodes[i];
    ++done_[recomputed.node_origin[i]];
    if (node.phase == Phase::update) continue;
    Stretch stretch;
    if (!is_cached(node))
      stretch = {node.phase, node.layer ? checkpointing.segment_of(*node.layer) : -1};
    for (const ValueId id : node.reads)
      if (recomputed.graph.value(id).role == ValueRole::parameter)
        read_in[id.index()].insert(stretch);
  }
  for (std::size_t i = 0; i < read_in.size(); ++i)
    stretches_[i] = static_cast<double>(std::max<std::size_t>(read_in[i].size(), 1));
}

double LayoutCosts::times(std::size_t node) const {
  const plan::Batching& batching = setting_.batching;
  if (train_.nodes[node].phase == Phase::update) return 1;
  return done_[node] * static_cast<double>(batching.accumulation * batching.chunks);
}

double LayoutCosts::times_gathered(std::size_t parameter) const {
  const plan::Batching& batching = setting_.batching;
  return stretches_[parameter] * static_cast<double>(batching.accumulation * batching.chunks);
}

double LayoutCosts::of_op(std::size_t node, const plan::NodeShardings& shardings) const {
  graph::Graph one;
  one.kind = train_.kind;
  one.mesh = train_.mesh;
  plan::GraphShardings kept{
      .graph = one.kind, .mesh = one.mesh, .values = {}, .nodes = {shardings}};
  std::map<ValueId, ValueId> copies;
  const auto copied = [&](ValueId id, const Sharding& sharding, ValueRole role,
                          const op::Operand& operand) {
    const auto [place, is_new] = copies.try_emplace(id, one.values.size());
    if (is_new) {
      one.values.push_back(train_.value(id));
      one.values.back().gradient_of.reset();
      one.values.back().role = role;
      one.values.back().element = operand.element;
      kept.values.push_back(sharding);
    }
    return place->second;
  };
  Node copy = train_.nodes[node];
  const op::Operands operands = op::operands(copy.op);
  for (std::size_t i = 0; i < copy.reads.size(); ++i)
    copy.reads[i] = copied(copy.reads[i], shardings.reads[i], ValueRole::input, operands[i]);
  for (std::size_t i = 0; i < copy.outputs.size(); ++i)
    copy.outputs[i] = copied(copy.outputs[i], shardings.outputs[i], ValueRole::activation,
                             operands[copy.reads.size() + i]);
  one.nodes.push_back(std::move(copy));
  plan::Plan plan;
  plan.meshes = {*setting_.mesh};
  plan.batching = setting_.batching;
  plan.compute = setting_.compute;
  plan.graphs = {std::move(kept)};
  return done_[node] * pricer_.price(demand_of(one, plan), setting_.groups).all();
}

/// What may run beside computation is what demand.h takes for hideable.
double LayoutCosts::share_that_costs(ValueId id, Collective kind, bool is_at_end) const {
  const ValueRole role = train_.value(id).role;
  const plan::Overlap& overlap = setting_.overlap;
  bool may_hide = false;
  const CollectiveFacts& facts = facts_of(kind);
  if (role == ValueRole::parameter && facts.gathers() && !facts.scatters())
    may_hide = overlap.all_gather && !is_at_end;
  else if (role == ValueRole::gradient)
    may_hide = overlap.reduce_scatter;
  else if (role == ValueRole::activation)
    may_hide = overlap.all_reduce && is_backward_[id.index()];
  const double hidden = may_hide ? setting_.hidden_share : 0;
  const double slowdown = pricer_.cluster().device.slowdown_beside_communication;
  return 1 - hidden + hidden * (slowdown - 1);
}

double LayoutCosts::of_conversion(ValueId id, const Sharding& from, const Sharding& to,
                                  bool is_at_end) const {
  const Value& value = train_.value(id);
  const Mesh& mesh = *setting_.mesh;
  const bool is_rounded = value.role == ValueRole::parameter;
  const auto size = static_cast<double>(size_bytes(
      is_rounded ? setting_.compute : op::element_dtype(value.element, setting_.compute)));
  const auto bytes = [&](const Sharding& sharding) {
    return size * static_cast<double>(op::local_shape(value.shape, sharding, mesh).elements());
  };
  Demand demand;
  double seconds = 0, before = bytes(from);
  Sharding at = from;
  for (const compile::Conversion& move : compile::conversion_path(from, to)) {
    const double after = bytes(move.after);
    const std::optional<Collective> kind = move.kind.collective();
    if (!kind) {
      demand.other_bytes += 2 * after;
    } else {
      const Shape local_before = op::local_shape(value.shape, at, mesh),
                  local_after = op::local_shape(value.shape, move.after, mesh);
      const auto [is_packed, is_unpacked] =
          compile::blocks_of(move, local_before, local_after, mesh);
      demand.instructions += 1 + (is_packed ? 1 : 0) + (is_unpacked ? 1 : 0);
      demand.other_bytes += 2 * ((is_packed ? before : 0) + (is_unpacked ? after : 0));
      Sent sent = sent_of(move, mesh, before, after);
      sent.element_bytes = size;
      if (is_at_end && value.role == ValueRole::gradient && setting_.bucket_bytes > 0)
        sent.calls = std::min(1.0, sent.payload_bytes / static_cast<double>(setting_.bucket_bytes));
      std::vector<machine::AxisGroup> along;
      for (const AxisId axis : move.axes) along.push_back(setting_.groups[axis.index()]);
      seconds += share_that_costs(id, *kind, is_at_end) * pricer_.seconds(*kind, along, sent);
    }
    before = after;
    at = move.after;
  }
  return seconds + pricer_.price(demand, setting_.groups).all();
}

double LayoutCosts::of_update(std::optional<std::size_t> parameter, const Sharding& moments) const {
  Demand demand;
  for (const std::size_t number : updates_[parameter.value_or(train_.values.size())]) {
    const Node& node = train_.nodes[number];
    std::vector<Shape> shapes;
    for (const auto* list : {&node.reads, &node.outputs})
      for (const ValueId id : *list) {
        const Shape& shape = train_.value(id).shape;
        const bool is_of_it = parameter && shape == train_.values[*parameter].shape;
        shapes.push_back(is_of_it ? op::local_shape(shape, moments, *setting_.mesh) : shape);
      }
    demand.instructions += 1;
    demand.other_bytes += op::traffic_bytes(node.op, shapes, setting_.compute);
  }
  return pricer_.price(demand, setting_.groups).all();
}

}  // namespace fourfold::search
