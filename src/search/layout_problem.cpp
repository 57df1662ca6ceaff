#include "search/layout_problem.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "search/alike_layers.h"

namespace fourfold::search {
namespace {

using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Sharding;

bool is_subset(const std::vector<op::Partial>& few, const std::vector<op::Partial>& of) {
  return std::ranges::all_of(
      few, [&](const op::Partial& one) { return std::ranges::find(of, one) != of.end(); });
}

/// What changes in what an op gives so that it is kept as `wanted`.
plan::Keep keep_as(const Sharding& wanted, std::size_t dims) {
  plan::Keep keep;
  for (std::size_t dim = 0; dim < dims; ++dim) keep.whole.push_back(dim);
  for (std::size_t dim = 0; dim < wanted.dims.size(); ++dim)
    for (const op::Cut& cut : wanted.dims[dim]) keep.wishes.push_back({cut.axis, {dim}});
  return keep;
}

/// The number of something among all that were met in a group before.
template <class Meaning>
class Meanings {
 public:
  std::size_t of(std::size_t group, const Meaning& meaning) {
    std::vector<Meaning>& all = groups_[group];
    const auto place = std::ranges::find(all, meaning);
    const auto number = static_cast<std::size_t>(place - all.begin());
    if (place == all.end()) all.push_back(meaning);
    return number;
  }

 private:
  std::map<std::size_t, std::vector<Meaning>> groups_;
};

}  // namespace

LayoutProblem::LayoutProblem(const graph::Graph& train, const plan::Layout& start,
                             LayoutSetting setting, Pricer& pricer)
    : train_(train),
      start_(start),
      setting_(std::move(setting)),
      costs_(train, setting_, pricer),
      axes_(axes_to_cut(*setting_.mesh, start.samples)),
      names_(plan::names_of_ops(train)),
      first_makers_(train.values.size(), none),
      ways_(train.nodes.size()),
      node_of_op_(train.nodes.size(), none),
      shardings_(train.values.size()),
      rests_(train.values.size()),
      node_of_rest_(train.values.size(), none) {
  auto pinned = plan::pinned_shardings(train, *setting_.mesh, setting_.pins);
  require(std::holds_alternative<plan::PinnedShardings>(pinned),
          "the pins of a search have no fault");
  pinned_ = std::get<plan::PinnedShardings>(std::move(pinned));
  plan::PersistentShardings persistent = plan::persistent_shardings(train, start);
  auto derived = plan::derive_shardings(train, *setting_.mesh, start, persistent);
  require(std::holds_alternative<plan::GraphShardings>(derived),
          "the layout that a search begins with is legal");
  fixed_ = std::get<plan::GraphShardings>(std::move(derived));
  for (std::size_t node = train.nodes.size(); node-- > 0;)
    for (const ValueId id : train.nodes[node].outputs) first_makers_[id.index()] = node;
  find_tables();
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
  if (setting_.layers_alike) share_choices();
}

FixedCuts LayoutProblem::axes_not_open() const {
  FixedCuts fixed;
  for (const AxisId axis : axes_)
    if (std::ranges::find(setting_.open, axis) == setting_.open.end()) fixed[axis];
  return fixed;
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

double LayoutProblem::conversion(ValueId id, std::size_t from, std::size_t to, bool is_at_end) {
  if (from == to) return 0;
  Shardings& known = shardings_[id.index()];
  const auto [place, is_new] = known.seconds.try_emplace({from, to, is_at_end}, 0);
  if (is_new) place->second = costs_.of_conversion(id, known.all[from], known.all[to], is_at_end);
  return place->second;
}

// --- the problem

void LayoutProblem::add_nodes() {
  const auto add = [&](std::string name, std::vector<double> comp, bool is_heavy) {
    problem_.nodes.push_back({std::move(name), std::move(comp), is_heavy});
    return problem_.nodes.size() - 1;
  };
  add("update", {costs_.of_update(std::nullopt, {})}, false);
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

/// True if a plan in which an activation is kept so has the op read it as the way does: it reads
/// terms as such wherever its rule allows that.
bool LayoutProblem::may_read(std::size_t node, const Way& way, std::size_t read,
                             const Sharding& kept) const {
  const Node& of = train_.nodes[node];
  if (kept.partial.empty() || train_.value(of.reads[read]).role != ValueRole::activation)
    return true;
  const Linear linear = op::factors(of.op, train_.shapes(of.reads)).of_any_form().linear;
  if (linear == Linear::no || (linear == Linear::first && read > 0)) return true;
  return std::ranges::all_of(kept.partial, [&](const op::Partial& one) {
    for (std::size_t i = 0; i < way.seen.size(); ++i)
      if (plan::cuts_axis(shardings_[operand(node, i).index()].all[way.seen[i]], one.axis))
        return true;
    const auto terms = way.terms.find(one.axis);
    if (terms == way.terms.end()) return false;
    return linear == Linear::all || terms->second <= read;
  });
}

void LayoutProblem::add_edges(std::size_t node) {
  const std::vector<Way>& ways = ways_[node];
  for (std::size_t i = 0; i < ways[0].seen.size(); ++i) {
    const ValueId id = operand(node, i);
    const Shardings& known = shardings_[id.index()];
    if (!is_chosen(id)) continue;
    const bool is_read = i < train_.nodes[node].reads.size();
    const bool is_first = first_makers_[id.index()] == node;
    solve::Edge edge{
        is_read ? known.node : node_of_op_[node], is_read ? node_of_op_[node] : known.node, {}};
    const std::size_t rows = is_read ? known.kept.size() : ways.size();
    const std::size_t columns = is_read ? ways.size() : known.kept.size();
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column) {
        const std::size_t kept = known.kept[is_read ? row : column];
        const Way& way = ways[is_read ? column : row];
        const std::size_t seen = way.seen[i], from = is_read ? kept : seen,
                          to = is_read ? seen : kept;
        const std::vector<op::Partial>& wanted = known.all[to].partial;
        // Padding comes from where it was before: no conversion brings it about.
        const bool is_made = is_read || train_.value(id).role == ValueRole::gradient;
        const bool has_padding_now = (is_made && is_padded(id, known.all[seen])) ||
                                     (!is_read && is_padded(id, known.all[kept]));
        // The first maker decides how a value is kept: either all sums stay or none.
        const bool is_allowed = is_subset(wanted, known.all[from].partial) &&
                                (!has_padding_now || known.all[from].dims == known.all[to].dims) &&
                                (is_read ? may_read(node, way, i, known.all[kept])
                                         : wanted.empty() || !is_first || from == to);
        edge.comm.push_back(is_allowed ? costs_.times(node) * conversion(id, from, to)
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
      const Sharding &from = uses.all[rest.rest], &to = uses.all[uses.kept[i]];
      if (is_padded(ValueId(value), to) && from.dims != to.dims) return solve::forbidden;
      return costs_.times_gathered(value) * conversion(ValueId(value), rest.rest, uses.kept[i]);
    });
  for (std::size_t i = 0; i < train_.values.size(); ++i) {
    const Value& gradient = train_.values[i];
    if (shardings_[i].node == none || gradient.role != ValueRole::gradient ||
        gradient.gradient_of != ValueId(value))
      continue;
    add(shardings_[i].node, shardings_[i].kept.size(), [&](const Rest& rest, std::size_t k) {
      const Sharding &now = shardings_[i].all[shardings_[i].kept[k]],
                     &wanted = shardings_[value].all[rest.moments];
      const bool has_some = is_padded(ValueId(i), now) || is_padded(ValueId(value), wanted);
      if (has_some && now.dims != wanted.dims) return solve::forbidden;
      const std::size_t to = index_of(ValueId(i), wanted);
      return conversion(ValueId(i), shardings_[i].kept[k], to, /*is_at_end=*/true);
    });
  }
}

/// Layers that are alike choose together.
void LayoutProblem::share_choices() {
  const Alike alike = alike_layers(train_);
  const std::size_t ops = train_.nodes.size(), values = train_.values.size();
  // What is pinned chooses alone.
  const auto group_of = [&](std::size_t i) { return is_pinned(i) ? i : alike.values[i]; };
  std::vector<std::size_t> groups(problem_.nodes.size(), ops + 2 * values);
  solve::Meanings numbers(problem_.nodes.size(), {0});
  Meanings<Way> of_ops;
  Meanings<Sharding> of_values;
  Meanings<std::pair<Sharding, Sharding>> of_rests;
  for (std::size_t node = 0; node < ops; ++node) {
    if (node_of_op_[node] == none) continue;
    const std::size_t group = groups[node_of_op_[node]] = alike.ops[node];
    std::vector<std::size_t>& list = numbers[node_of_op_[node]] = {};
    for (const Way& way : ways_[node]) list.push_back(of_ops.of(group, way));
  }
  for (std::size_t i = 0; i < values; ++i) {
    const Shardings& known = shardings_[i];
    if (known.node != none) {
      const std::size_t group = groups[known.node] = ops + group_of(i);
      std::vector<std::size_t>& list = numbers[known.node] = {};
      for (const std::size_t kept : known.kept)
        list.push_back(of_values.of(group, known.all[kept]));
    }
    if (node_of_rest_[i] == none) continue;
    const std::size_t group = groups[node_of_rest_[i]] = ops + values + group_of(i);
    std::vector<std::size_t>& list = numbers[node_of_rest_[i]] = {};
    for (const Rest& rest : rests_[i])
      list.push_back(of_rests.of(group, {known.all[rest.rest], known.all[rest.moments]}));
  }
  shared_ = solve::share(problem_, groups, numbers);
}

// --- what an assignment means

plan::Layout LayoutProblem::layout(std::span<const std::size_t> chosen) const {
  const std::vector<std::size_t> choices =
      shared_ ? shared_->whole(chosen) : std::vector<std::size_t>(chosen.begin(), chosen.end());
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
                                 ? reduced(*kept[value.gradient_of->index()])
                                 : reduced(given);
      if (wanted == usual) continue;
      plan::Keep keep;
      if (wanted.dims != given.dims) keep = keep_as(wanted, value.shape.rank());
      keep.sums_stay = !wanted.partial.empty();
      layout.activations[value.name] = std::move(keep);
    }
  }
  return layout;
}

}  // namespace fourfold::search
