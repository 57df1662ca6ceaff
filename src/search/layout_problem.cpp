#include "search/layout_problem.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "compile/conversion_path.h"
#include "op/factor_choice.h"
#include "search/demand.h"

namespace fourfold::search {
namespace {

using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Sharding;

Sharding reduced(Sharding sharding) {
  sharding.partial.clear();
  return sharding;
}

bool has_strides(const Sharding& sharding) {
  return std::ranges::any_of(sharding.dims, [](const op::Cuts& cuts) {
    return std::ranges::any_of(cuts, [](const op::Cut& cut) { return cut.stride.has_value(); });
  });
}

bool is_subset(const std::vector<op::Partial>& few, const std::vector<op::Partial>& of) {
  return std::ranges::all_of(
      few, [&](const op::Partial& one) { return std::ranges::find(of, one) != of.end(); });
}

/// Which factor an axis cuts that is not open, if any.
using Fixed = std::map<AxisId, std::optional<char>>;

/// Calls `visit` for every way in which each of the axes cuts one factor that it divides, or none.
template <class Visit>
void for_each_cuts(const Mesh& mesh, std::span<const AxisId> axes, const Fixed& fixed,
                   op::FactorSizes left, const plan::FactorAxes& cuts, const Visit& visit) {
  if (axes.empty()) return visit(cuts);
  const auto place = fixed.find(axes[0]);
  if (place == fixed.end() || !place->second)
    for_each_cuts(mesh, axes.subspan(1), fixed, left, cuts, visit);
  const std::int64_t ranks = mesh.axes[axes[0].index()].size;
  for (auto& [factor, size] : left) {
    if (size % ranks != 0 || (place != fixed.end() && place->second != factor)) continue;
    plan::FactorAxes more = cuts;
    more[factor].push_back(axes[0]);
    size /= ranks;
    for_each_cuts(mesh, axes.subspan(1), fixed, left, more, visit);
    size *= ranks;
  }
}

/// What changes in what an op gives so that it is kept as `wanted`.
plan::Keep keep_as(const Sharding& wanted, std::size_t dims) {
  plan::Keep keep;
  for (std::size_t dim = 0; dim < dims; ++dim) keep.whole.push_back(dim);
  for (std::size_t dim = 0; dim < wanted.dims.size(); ++dim)
    for (const op::Cut& cut : wanted.dims[dim]) keep.wishes.push_back({cut.axis, {dim}});
  return keep;
}

}  // namespace

std::vector<AxisId> axes_to_cut(const Mesh& mesh, const std::vector<AxisId>& samples) {
  std::vector<AxisId> axes;
  for (const AxisId axis : samples)
    if (mesh.axes[axis.index()].size > 1) axes.push_back(axis);
  for (std::size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].size > 1 && std::ranges::find(axes, AxisId(i)) == axes.end())
      axes.emplace_back(i);
  return axes;
}

LayoutProblem::LayoutProblem(const graph::Graph& train, const plan::Layout& start,
                             LayoutSetting setting, Pricer& pricer)
    : train_(train),
      start_(start),
      setting_(std::move(setting)),
      pricer_(pricer),
      names_(plan::names_of_ops(train)),
      ways_(train.nodes.size()),
      node_of_op_(train.nodes.size(), none),
      shardings_(train.values.size()),
      rests_(train.values.size()),
      node_of_rest_(train.values.size(), none) {
  plan::PersistentShardings persistent = plan::persistent_shardings(train, start);
  auto derived = plan::derive_shardings(train, *setting_.mesh, start, persistent);
  require(std::holds_alternative<plan::GraphShardings>(derived),
          "the layout that a search begins with is legal");
  fixed_ = std::get<plan::GraphShardings>(std::move(derived));
  for (std::size_t node = 0; node < train.nodes.size(); ++node)
    if (!plan::sees_state(train, train.nodes[node])) find_ways(node);
  for (std::size_t value = 0; value < train.values.size(); ++value)
    if (train.values[value].role == ValueRole::parameter) find_rests(value);
  find_kept();
  add_nodes();
  for (std::size_t node = 0; node < train.nodes.size(); ++node)
    if (node_of_op_[node] != none) add_edges(node);
  for (std::size_t value = 0; value < train.values.size(); ++value)
    if (node_of_rest_[value] != none) add_edges_of_parameter(value);
}

bool LayoutProblem::is_open(AxisId axis) const {
  return std::ranges::find(setting_.open, axis) != setting_.open.end();
}

ValueId LayoutProblem::operand(std::size_t node, std::size_t i) const {
  const Node& of = train_.nodes[node];
  return i < of.reads.size() ? of.reads[i] : of.outputs[i - of.reads.size()];
}

bool LayoutProblem::is_chosen(ValueId id) const {
  const Value& value = train_.value(id);
  return value.role == ValueRole::activation || value.role == ValueRole::parameter ||
         value.role == ValueRole::gradient;
}

std::size_t LayoutProblem::index_of(ValueId id, Sharding sharding) {
  sharding = plan::normal(std::move(sharding));
  sharding.mesh = train_.mesh;
  std::vector<Sharding>& all = shardings_[id.index()].all;
  const auto place = std::ranges::find(all, sharding);
  const auto index = static_cast<std::size_t>(place - all.begin());
  if (place == all.end()) all.push_back(std::move(sharding));
  return index;
}

double LayoutProblem::times(Phase phase) const {
  return phase == Phase::update
             ? 1
             : static_cast<double>(setting_.batching.accumulation * setting_.batching.chunks);
}

// --- ways of ops

void LayoutProblem::find_ways(std::size_t node) {
  const Node& of = train_.nodes[node];
  const op::FactorRule rule = op::factors(of.op, train_.shapes(of.reads)).of_any_form();
  const std::vector<AxisId> axes = axes_to_cut(*setting_.mesh, start_.samples);
  Fixed fixed;
  for (const AxisId axis : axes)
    if (!is_open(axis)) fixed[axis];
  if (const auto chosen = start_.ops.find(names_[node]); chosen != start_.ops.end())
    for (const auto& [factor, by] : chosen->second)
      for (const AxisId axis : by)
        if (!is_open(axis)) fixed[axis] = factor;
  for_each_cuts(*setting_.mesh, axes, fixed, plan::factor_sizes(train_, of), {},
                [&](const plan::FactorAxes& cuts) { add_way(node, rule, cuts); });
  require(!ways_[node].empty(), [&] { return format("{} can be computed whole", names_[node]); });
}

void LayoutProblem::add_way(std::size_t node, const op::FactorRule& rule,
                            const plan::FactorAxes& axes) {
  const Node& of = train_.nodes[node];
  op::FactorChoice choice(rule, *setting_.mesh);
  const op::FactorSizes sizes = plan::factor_sizes(train_, of);
  for (const auto& [factor, by] : axes)
    if (!choice.cut(factor, sizes.at(factor), by)) return;
  plan::NodeShardings shardings;
  std::vector<Sharding> claims;
  for (std::size_t i = 0; i < rule.operands.size(); ++i)
    (i < of.reads.size() ? shardings.reads : claims).push_back(choice.cuts_of(i));
  for (std::size_t i = 0; i < of.reads.size(); ++i)
    if (train_.value(of.reads[i]).role == ValueRole::step)
      shardings.reads[i].partial = fixed_.values[of.reads[i].index()].partial;
  op::Propagation given = op::propagate(rule, shardings.reads, claims, *setting_.mesh);
  if (!given.problem.empty()) return;
  shardings.outputs = std::move(given.outputs);
  for (auto* list : {&shardings.reads, &shardings.outputs})
    for (Sharding& sharding : *list) sharding = plan::normal(std::move(sharding));
  plan::put_on(shardings, train_.mesh);
  Way way{axes, {}, seconds_of(node, shardings)};
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const ValueId id = operand(node, i);
    const Sharding& seen =
        i < of.reads.size() ? shardings.reads[i] : shardings.outputs[i - of.reads.size()];
    way.seen.push_back(index_of(id, seen));
    if (is_chosen(id)) continue;
    const bool is_read = i < of.reads.size();
    const std::size_t at = index_of(id, is_read ? fixed_.values[id.index()] : Sharding{});
    // A result is the sum of the terms of all micro-batches, and reduced once.
    way.seconds += is_read ? times(of.phase) * conversion(id, at, way.seen.back())
                           : conversion(id, way.seen.back(), at);
  }
  // Several ways may see the same: the first one that takes least stays.
  for (Way& other : ways_[node])
    if (other.seen == way.seen) {
      if (way.seconds < other.seconds) other = std::move(way);
      return;
    }
  ways_[node].push_back(std::move(way));
}

/// The work of a rank, with what a cut form sends between its rows.
double LayoutProblem::seconds_of(std::size_t node, const plan::NodeShardings& shardings) {
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
  return pricer_.price(demand_of(one, plan), setting_.groups).all();
}

// --- parameters

void LayoutProblem::find_rests(std::size_t value) {
  const Shape& shape = train_.values[value].shape;
  const Mesh& mesh = *setting_.mesh;
  op::FactorSizes dims;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    dims[static_cast<char>('a' + dim)] = shape[dim];
  const std::vector<AxisId> axes = axes_to_cut(mesh, start_.samples);
  const plan::ParameterLayout& begun = start_.parameters.at(train_.values[value].name);
  Fixed fixed;
  for (const AxisId axis : axes)
    if (!is_open(axis)) fixed[axis];
  for (std::size_t dim = 0; dim < begun.rest.dims.size(); ++dim)
    for (const op::Cut& cut : begun.rest.dims[dim])
      if (!is_open(cut.axis) && !cut.stride) fixed[cut.axis] = static_cast<char>('a' + dim);
  for_each_cuts(mesh, axes, fixed, dims, {}, [&](const plan::FactorAxes& cuts) {
    Sharding rest;
    rest.dims.resize(shape.rank());
    std::set<AxisId> used;
    for (const auto& [letter, by] : cuts)
      for (const AxisId axis : by) {
        rest.dims[static_cast<std::size_t>(letter - 'a')].push_back({axis, std::nullopt});
        used.insert(axis);
      }
    Sharding moments = rest;
    for (const AxisId axis : axes) {
      const std::int64_t rows = op::local_size(shape[0], moments.dims[0], mesh);
      if (used.contains(axis) || rows % mesh.axes[axis.index()].size != 0) continue;
      moments.dims[0].push_back({axis, std::nullopt});
    }
    const ValueId id(value);
    for (const Sharding* of : {&rest, &moments}) {
      Rest one{index_of(id, rest), index_of(id, *of), 0};
      one.seconds =
          update_seconds(value, *of) + conversion(id, one.moments, one.rest, /*is_at_end=*/true);
      rests_[value].push_back(one);
      if (moments == rest) break;
    }
  });
}

double LayoutProblem::update_seconds(std::optional<std::size_t> value, const Sharding& moments) {
  Demand demand;
  for (const Node& node : train_.nodes) {
    if (node.phase != Phase::update) continue;
    std::optional<std::size_t> parameter;
    for (const auto* list : {&node.reads, &node.outputs})
      for (const ValueId id : *list) {
        const Value& of = train_.value(id);
        if (of.role == ValueRole::parameter) parameter = id.index();
        if (of.role == ValueRole::gradient && of.gradient_of) parameter = of.gradient_of->index();
      }
    if (parameter != value) continue;
    std::vector<Shape> shapes;
    for (const auto* list : {&node.reads, &node.outputs})
      for (const ValueId id : *list) {
        const Shape& shape = train_.value(id).shape;
        const bool is_of_it = value && shape == train_.values[*value].shape;
        shapes.push_back(is_of_it ? op::local_shape(shape, moments, *setting_.mesh) : shape);
      }
    demand.instructions += 1;
    demand.other_bytes += op::traffic_bytes(node.op, shapes, setting_.compute);
  }
  return pricer_.price(demand, setting_.groups).all();
}

// --- how values may be kept

void LayoutProblem::find_kept() {
  std::vector<std::set<std::size_t>> kept(shardings_.size());
  const auto add = [&](ValueId id, const Sharding& sharding) {
    if (!has_strides(sharding)) kept[id.index()].insert(index_of(id, sharding));
  };
  for (std::size_t node = 0; node < ways_.size(); ++node)
    for (const Way& way : ways_[node])
      for (std::size_t i = 0; i < way.seen.size(); ++i) {
        const ValueId id = operand(node, i);
        if (!is_chosen(id)) continue;
        const Sharding seen = shardings_[id.index()].all[way.seen[i]];
        if (train_.value(id).role == ValueRole::gradient) add(id, seen);
        add(id, reduced(seen));
      }
  for (std::size_t value = 0; value < rests_.size(); ++value)
    for (const Rest& rest : rests_[value]) {
      kept[value].insert(rest.rest);
      const Sharding moments = shardings_[value].all[rest.moments];
      for (std::size_t i = 0; i < train_.values.size(); ++i)
        if (train_.values[i].role == ValueRole::gradient && train_.values[i].gradient_of &&
            train_.values[i].gradient_of->index() == value && !kept[i].empty())
          add(ValueId(i), moments);
    }
  for (std::size_t i = 0; i < kept.size(); ++i)
    shardings_[i].kept.assign(kept[i].begin(), kept[i].end());
}

// --- the problem

void LayoutProblem::add_nodes() {
  const auto add = [&](std::string name, std::vector<double> comp, bool is_heavy) {
    problem_.nodes.push_back({std::move(name), std::move(comp), is_heavy});
    return problem_.nodes.size() - 1;
  };
  add("update", {update_seconds(std::nullopt, {})}, false);
  std::vector<bool> is_met(shardings_.size());
  for (std::size_t node = 0; node < ways_.size(); ++node) {
    if (ways_[node].empty()) continue;
    std::vector<double> comp;
    for (const Way& way : ways_[node]) comp.push_back(way.seconds);
    node_of_op_[node] = add("op " + names_[node], std::move(comp),
                            op::is_counted_in_flops(op::work_class(train_.nodes[node].op)));
    for (std::size_t i = 0; i < ways_[node][0].seen.size(); ++i)
      is_met[operand(node, i).index()] = true;
  }
  for (std::size_t i = 0; i < shardings_.size(); ++i) {
    const Value& value = train_.values[i];
    if (is_met[i] && is_chosen(ValueId(i)))
      shardings_[i].node = add((value.role == ValueRole::parameter ? "use " : "keep ") + value.name,
                               std::vector<double>(shardings_[i].kept.size()), false);
    if (rests_[i].empty()) continue;
    std::vector<double> comp;
    for (const Rest& rest : rests_[i]) comp.push_back(rest.seconds);
    node_of_rest_[i] = add("rest " + value.name, std::move(comp), false);
  }
}

void LayoutProblem::add_edges(std::size_t node) {
  const std::vector<Way>& ways = ways_[node];
  for (std::size_t i = 0; i < ways[0].seen.size(); ++i) {
    const ValueId id = operand(node, i);
    const Shardings& known = shardings_[id.index()];
    if (!is_chosen(id)) continue;
    const bool is_read = i < train_.nodes[node].reads.size();
    const bool is_first =
        train_.value(id).role == ValueRole::gradient &&
        std::ranges::none_of(std::span(train_.nodes).first(node), [&](const Node& other) {
          return std::ranges::find(other.outputs, id) != other.outputs.end();
        });
    solve::Edge edge{
        is_read ? known.node : node_of_op_[node], is_read ? node_of_op_[node] : known.node, {}};
    const std::size_t rows = is_read ? known.kept.size() : ways.size();
    const std::size_t columns = is_read ? ways.size() : known.kept.size();
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t kept = known.kept[is_read ? row : column];
        const std::size_t seen = ways[is_read ? column : row].seen[i];
        const std::size_t from = is_read ? kept : seen, to = is_read ? seen : kept;
        const std::vector<op::Partial>& given = known.all[from].partial;
        const std::vector<op::Partial>& wanted = known.all[to].partial;
        const bool is_allowed =
            is_subset(wanted, given) && (wanted.empty() || !is_first || from == to);
        edge.comm.push_back(is_allowed ? times(train_.nodes[node].phase) * conversion(id, from, to)
                                       : solve::forbidden);
      }
    problem_.edges.push_back(std::move(edge));
  }
}

void LayoutProblem::add_edges_of_parameter(std::size_t value) {
  const std::vector<Rest>& rests = rests_[value];
  const auto add = [&](std::size_t to, std::size_t choices, const auto& seconds) {
    solve::Edge edge{node_of_rest_[value], to, {}};
    for (const Rest& rest : rests)
      for (std::size_t i = 0; i < choices; ++i) edge.comm.push_back(seconds(rest, i));
    problem_.edges.push_back(std::move(edge));
  };
  if (const Shardings& uses = shardings_[value]; uses.node != none)
    add(uses.node, uses.kept.size(), [&](const Rest& rest, std::size_t i) {
      return times(Phase::forward) * conversion(ValueId(value), rest.rest, uses.kept[i]);
    });
  for (std::size_t i = 0; i < train_.values.size(); ++i) {
    const Value& gradient = train_.values[i];
    if (shardings_[i].node == none || gradient.role != ValueRole::gradient ||
        gradient.gradient_of != ValueId(value))
      continue;
    add(shardings_[i].node, shardings_[i].kept.size(), [&](const Rest& rest, std::size_t k) {
      const std::size_t to = index_of(ValueId(i), shardings_[value].all[rest.moments]);
      return conversion(ValueId(i), shardings_[i].kept[k], to, /*is_at_end=*/true);
    });
  }
}

/// Seconds of one conversion.
double LayoutProblem::conversion(ValueId id, std::size_t from, std::size_t to, bool is_at_end) {
  if (from == to) return 0;
  Shardings& known = shardings_[id.index()];
  const auto [place, is_new] = known.seconds.try_emplace({from, to, is_at_end}, 0);
  if (!is_new) return place->second;
  const Value& value = train_.value(id);
  const Mesh& mesh = *setting_.mesh;
  const bool is_rounded = value.role == ValueRole::parameter;
  const auto size = static_cast<double>(size_bytes(
      is_rounded ? setting_.compute : op::element_dtype(value.element, setting_.compute)));
  const auto bytes = [&](const Sharding& sharding) {
    return size * static_cast<double>(op::local_shape(value.shape, sharding, mesh).elements());
  };
  Demand demand;
  double seconds = 0, before = bytes(known.all[from]);
  for (const compile::Conversion& move : compile::conversion_path(known.all[from], known.all[to])) {
    const double after = bytes(move.after);
    demand.instructions += 1;
    if (!compile::is_collective(move.kind)) {
      demand.instructions -= 1;
      demand.other_bytes += 2 * after;
    } else {
      Sent sent = sent_of(move, mesh, before, after);
      if (is_at_end && setting_.bucket_bytes > 0)
        sent.calls = std::min(1.0, sent.payload_bytes / static_cast<double>(setting_.bucket_bytes));
      std::vector<machine::AxisGroup> along;
      for (const AxisId axis : move.axes) along.push_back(setting_.groups[axis.index()]);
      seconds += pricer_.seconds(move.kind, along, sent);
    }
    before = after;
  }
  return place->second = seconds + pricer_.price(demand, setting_.groups).all();
}

// --- what an assignment means

plan::Layout LayoutProblem::layout(std::span<const std::size_t> choices) const {
  plan::Layout layout;
  layout.samples = start_.samples;
  layout.parameters = start_.parameters;
  for (std::size_t i = 0; i < train_.values.size(); ++i) {
    const Value& value = train_.values[i];
    if (node_of_rest_[i] == none) continue;
    const Rest& rest = rests_[i][choices[node_of_rest_[i]]];
    plan::ParameterLayout& parameter = layout.parameters.at(value.name);
    parameter.rest = reduced(shardings_[i].all[rest.rest]);
    parameter.moments = reduced(shardings_[i].all[rest.moments]);
    parameter.use.reset();
    if (const auto average = layout.parameters.find(graph::name_of_average(value.name));
        average != layout.parameters.end())
      average->second = parameter;
  }
  std::vector<const Sharding*> kept(train_.values.size());
  for (std::size_t node = 0; node < ways_.size(); ++node) {
    if (node_of_op_[node] == none) continue;
    const Way& way = ways_[node][choices[node_of_op_[node]]];
    layout.ops[names_[node]] = way.axes;
    const Node& of = train_.nodes[node];
    for (std::size_t o = 0; o < of.outputs.size(); ++o) {
      const ValueId id = of.outputs[o];
      const Shardings& known = shardings_[id.index()];
      if (known.node == none || kept[id.index()] != nullptr) continue;
      const Value& value = train_.value(id);
      const Sharding& wanted = known.all[known.kept[choices[known.node]]];
      kept[id.index()] = &wanted;
      const Sharding& given = known.all[way.seen[of.reads.size() + o]];
      const bool is_gradient = value.role == ValueRole::gradient;
      const Sharding usual = is_gradient ? given
                             : value.gradient_of && kept[value.gradient_of->index()] != nullptr
                                 ? *kept[value.gradient_of->index()]
                                 : reduced(given);
      if (wanted == usual) continue;
      plan::Keep keep;
      if (wanted != reduced(given)) keep = keep_as(wanted, value.shape.rank());
      keep.sums_stay = !wanted.partial.empty();
      layout.activations[value.name] = std::move(keep);
    }
  }
  return layout;
}

}  // namespace fourfold::search
