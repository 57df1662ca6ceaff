#include "search/layout_problem.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include "base/error.h"
#include "base/format.h"
#include "op/factor_choice.h"
#include "search/alike_layers.h"

namespace fourfold::search {
namespace {

using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Sharding;

using LinearIn = op::FactorRule::Linear;

bool is_subset(const std::vector<op::Partial>& few, const std::vector<op::Partial>& of) {
  return std::ranges::all_of(
      few, [&](const op::Partial& one) { return std::ranges::find(of, one) != of.end(); });
}

bool is_sum_on(const Sharding& sharding, AxisId axis) {
  const op::Partial* partial = sharding.partial_on(axis);
  return partial != nullptr && partial->reduction == Reduction::sum;
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

/// Has the first operand with a dim of the factor alone decide that it is cut so.
bool cut_padded(const op::FactorRule& rule, char factor, const op::Cuts& cuts,
                op::FactorChoice& choice) {
  for (std::size_t i = 0; i < rule.operands.size(); ++i)
    for (std::size_t dim = 0; dim < rule.operands[i].size(); ++dim) {
      if (rule.operands[i][dim] != std::string_view(&factor, 1)) continue;
      Sharding padded;
      padded.dims.resize(rule.operands[i].size());
      padded.dims[dim] = cuts;
      choice.follow(i, padded);
      const Sharding cut = choice.cuts_of(i);
      return cut.dims.size() > dim && cut.dims[dim] == cuts;
    }
  return false;
}

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

/// Padding of few rows is not worth while.
void LayoutProblem::find_tables() {
  constexpr std::int64_t rows_of_a_rank = 64;
  for (const Node& node : train_.nodes) {
    if (op::work_class(node.op) != op::WorkClass::look_up) continue;
    for (const ValueId id : node.reads)
      if (const Value& table = train_.value(id);
          table.role == ValueRole::parameter &&
          table.shape[0] >= rows_of_a_rank * static_cast<std::int64_t>(setting_.mesh->ranks.size()))
        padded_sizes_.insert(table.shape[0]);
  }
}

std::string LayoutProblem::padded_of(const op::FactorSizes& sizes) const {
  std::string factors;
  for (const auto& [factor, size] : sizes)
    if (padded_sizes_.contains(size)) factors += factor;
  return factors;
}

// --- ways of ops

void LayoutProblem::find_ways(std::size_t node) {
  const Node& of = train_.nodes[node];
  const op::FactorRule rule = op::factors(of.op, train_.shapes(of.reads)).of_any_form();
  FixedCuts fixed = axes_not_open();
  if (const auto chosen = start_.ops.find(names_[node]); chosen != start_.ops.end())
    for (const auto& [factor, by] : chosen->second)
      for (const AxisId axis : by)
        if (const auto place = fixed.find(axis); place != fixed.end()) place->second = factor;
  const op::FactorSizes sizes = plan::factor_sizes(train_, of);
  for_each_cuts(*setting_.mesh, axes_, fixed, sizes, padded_of(sizes),
                [&](const plan::FactorAxes& cuts) { add_ways(node, rule, cuts); });
  require(!ways_[node].empty(), [&] { return format("{} can be computed whole", names_[node]); });
}

/// The ways that cut factors so; they differ in which sums stay terms.
void LayoutProblem::add_ways(std::size_t node, const op::FactorRule& rule,
                             const plan::FactorAxes& axes) {
  const Node& of = train_.nodes[node];
  op::FactorChoice choice(rule, *setting_.mesh);
  const op::FactorSizes sizes = plan::factor_sizes(train_, of);
  std::optional<char> padded;
  for (const auto& [factor, by] : axes)
    if (has_strides({.mesh = {},
                     .dims = {cuts_of_dim(sizes.at(factor), by, *setting_.mesh)},
                     .partial = {}}))
      padded = factor;
    else if (!choice.cut(factor, sizes.at(factor), by))
      return;
  // Last, as it leaves all else whole that the operand has.
  if (padded &&
      !cut_padded(rule, *padded, cuts_of_dim(sizes.at(*padded), axes.at(*padded), *setting_.mesh),
                  choice))
    return;
  plan::NodeShardings shardings;
  std::vector<Sharding> claims;
  for (std::size_t i = 0; i < rule.operands.size(); ++i)
    (i < of.reads.size() ? shardings.reads : claims).push_back(choice.cuts_of(i));
  for (std::size_t i = 0; i < of.reads.size(); ++i)
    if (train_.value(of.reads[i]).role == ValueRole::step)
      shardings.reads[i].partial = fixed_.values[of.reads[i].index()].partial;
  for_each_terms(node, rule, shardings, claims, axes_, {}, [&](const Terms& terms) {
    add_way(node, rule, {axes, terms, {}}, shardings, claims);
  });
}

/// Calls `visit` for every way to leave reads partial on these axes, first for none.
void LayoutProblem::for_each_terms(std::size_t node, const op::FactorRule& rule,
                                   const plan::NodeShardings& shardings,
                                   const std::vector<Sharding>& claims,
                                   std::span<const AxisId> axes, const Terms& terms,
                                   const std::function<void(const Terms&)>& visit) const {
  if (axes.empty() || rule.linear == LinearIn::no) return visit(terms);
  const AxisId axis = axes[0];
  for_each_terms(node, rule, shardings, claims, axes.subspan(1), terms, visit);
  const auto cuts = [&](const Sharding& one) { return is_cut_by(one, axis); };
  if (std::ranges::any_of(shardings.reads, cuts) || std::ranges::any_of(claims, cuts)) return;
  const std::vector<ValueId>& reads = train_.nodes[node].reads;
  const std::size_t most = rule.linear == LinearIn::one ? reads.size() : 1;
  for (std::size_t read = 0; read < most; ++read) {
    const bool is_given =
        rule.linear == LinearIn::all
            ? std::ranges::all_of(reads, [&](ValueId id) { return gives_terms(id, axis); })
            : gives_terms(reads[read], axis);
    if (!is_given) continue;
    Terms more = terms;
    more[axis] = read;
    for_each_terms(node, rule, shardings, claims, axes.subspan(1), more, visit);
  }
}

/// True if an activation may be kept as terms of a sum along the axis.
bool LayoutProblem::gives_terms(ValueId id, AxisId axis) const {
  const std::size_t maker = first_makers_[id.index()];
  if (train_.value(id).role != ValueRole::activation || maker == none || is_pinned(id.index()))
    return false;
  const std::vector<ValueId>& outputs = train_.nodes[maker].outputs;
  const auto output = static_cast<std::size_t>(std::ranges::find(outputs, id) - outputs.begin());
  return std::ranges::any_of(ways_[maker], [&](const Way& way) {
    const Sharding& given =
        shardings_[id.index()].all[way.seen[train_.nodes[maker].reads.size() + output]];
    return is_sum_on(given, axis) && !has_strides(given);
  });
}

void LayoutProblem::add_way(std::size_t node, const op::FactorRule& rule, Way way,
                            plan::NodeShardings shardings, const std::vector<Sharding>& claims) {
  const Node& of = train_.nodes[node];
  for (const auto& [axis, read] : way.terms)
    for (std::size_t i = 0; i < of.reads.size(); ++i)
      if (rule.linear == LinearIn::all || i == read)
        shardings.reads[i].partial.push_back({axis, Reduction::sum});
  for (Sharding& read : shardings.reads) std::ranges::sort(read.partial, {}, &op::Partial::axis);
  op::Propagation given = op::propagate(rule, shardings.reads, claims, *setting_.mesh);
  if (!given.problem.empty()) return;
  shardings.outputs = std::move(given.outputs);
  for (auto* list : {&shardings.reads, &shardings.outputs})
    for (Sharding& sharding : *list) sharding = plan::normal(std::move(sharding));
  plan::put_on(shardings, train_.mesh);
  way.seconds = costs_.of_op(node, shardings);
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const ValueId id = operand(node, i);
    const bool is_read = i < of.reads.size();
    way.seen.push_back(
        index_of(id, is_read ? shardings.reads[i] : shardings.outputs[i - of.reads.size()]));
    if (is_chosen(id)) continue;
    const std::size_t at = index_of(id, is_read ? fixed_.values[id.index()] : Sharding{});
    // A result is the sum of the terms of all micro-batches, and reduced once.
    way.seconds += is_read ? costs_.times(of.phase) * conversion(id, at, way.seen.back())
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

// --- parameters

void LayoutProblem::find_rests(std::size_t value) {
  const Shape& shape = train_.values[value].shape;
  if (const auto pin = pinned_.weights.find(train_.values[value].name);
      pin != pinned_.weights.end()) {
    Sharding rest = pin->second;
    rest.dims.resize(shape.rank());
    return add_rest(value, rest);
  }
  const plan::ParameterLayout& begun = start_.parameters.at(train_.values[value].name);
  FixedCuts fixed = axes_not_open();
  for (std::size_t dim = 0; dim < begun.rest.dims.size(); ++dim)
    for (const op::Cut& cut : begun.rest.dims[dim])
      if (const auto place = fixed.find(cut.axis); place != fixed.end())
        place->second = static_cast<char>('a' + dim);
  const op::FactorSizes dims = dims_as_factors(shape);
  for_each_cuts(*setting_.mesh, axes_, fixed, dims, padded_of(dims),
                [&](const plan::FactorAxes& cuts) {
                  add_rest(value, sharding_of(cuts, shape, *setting_.mesh));
                });
  const auto cutting = setting_.cut.find(train_.values[value].name);
  if (cutting == setting_.cut.end() && !pinned_.never_whole.contains(train_.values[value].name))
    return;
  const auto size = [&](const Rest& one) {
    return op::local_shape(shape, shardings_[value].all[one.rest], *setting_.mesh).elements();
  };
  const std::int64_t least = std::ranges::min(rests_[value] | std::views::transform(size));
  const bool is_least = cutting != setting_.cut.end() && cutting->second == Cutting::most;
  const std::int64_t most = is_least ? least : std::max(least, shape.elements() - 1);
  std::erase_if(rests_[value], [&](const Rest& one) { return size(one) > most; });
}

/// A parameter may lie so with its moments, or an axis that is left cuts these further: one, as
/// one gather then completes what was updated.
void LayoutProblem::add_rest(std::size_t value, const Sharding& rest) {
  const Shape& shape = train_.values[value].shape;
  const Mesh& mesh = *setting_.mesh;
  const ValueId id(value);
  const auto add = [&](const Sharding& moments) {
    Rest one{index_of(id, rest), index_of(id, moments), 0};
    one.seconds = costs_.of_update(value, moments) +
                  conversion(id, one.moments, one.rest, /*is_at_end=*/true);
    rests_[value].push_back(one);
  };
  add(rest);
  if (is_padded(id, rest)) return;
  const std::int64_t rows = op::local_size(shape[0], rest.dims[0], mesh);
  for (const AxisId axis : axes_) {
    if (is_cut_by(rest, axis) || rows % mesh.axes[axis.index()].size != 0) continue;
    Sharding moments = rest;
    moments.dims[0].push_back({axis, std::nullopt});
    add(moments);
  }
}

// --- how values may be kept

void LayoutProblem::find_kept() {
  std::vector<std::set<std::size_t>> kept(shardings_.size()), terms(shardings_.size());
  const auto add = [&](ValueId id, const Sharding& sharding) {
    if (!has_strides(sharding) || is_padded(id, sharding))
      kept[id.index()].insert(index_of(id, sharding));
  };
  for (std::size_t node = 0; node < ways_.size(); ++node)
    for (const Way& way : ways_[node])
      for (std::size_t i = 0; i < way.seen.size(); ++i) {
        const ValueId id = operand(node, i);
        if (!is_chosen(id)) continue;
        const Sharding seen = shardings_[id.index()].all[way.seen[i]];
        if (train_.value(id).role == ValueRole::gradient) add(id, seen);
        add(id, reduced(seen));
        if (i < train_.nodes[node].reads.size() && !seen.partial.empty())
          terms[id.index()].insert(way.seen[i]);
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
  for (std::size_t i = 0; i < kept.size(); ++i) {
    std::vector<std::size_t>& list = shardings_[i].kept;
    if (train_.values[i].role == ValueRole::activation)
      if (const auto pin = pinned_.activations.find(train_.values[i].name);
          pin != pinned_.activations.end()) {
        list = {index_of(ValueId(i), pin->second)};
        continue;
      }
    list.assign(kept[i].begin(), kept[i].end());
    // Where both take the same, a sum is reduced where it is made.
    std::ranges::copy_if(terms[i], std::back_inserter(list),
                         [&](std::size_t one) { return !kept[i].contains(one); });
    if (train_.values[i].role != ValueRole::activation ||
        !pinned_.never_whole.contains(train_.values[i].name))
      continue;
    const auto is_whole = [&](std::size_t one) { return shardings_[i].all[one].dims.empty(); };
    if (!std::ranges::all_of(list, is_whole)) std::erase_if(list, is_whole);
  }
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
  const LinearIn linear = op::factors(of.op, train_.shapes(of.reads)).of_any_form().linear;
  if (linear == LinearIn::no || (linear == LinearIn::first && read > 0)) return true;
  return std::ranges::all_of(kept.partial, [&](const op::Partial& one) {
    for (std::size_t i = 0; i < way.seen.size(); ++i)
      if (is_cut_by(shardings_[operand(node, i).index()].all[way.seen[i]], one.axis)) return true;
    const auto terms = way.terms.find(one.axis);
    if (terms == way.terms.end()) return false;
    return linear == LinearIn::all || terms->second <= read;
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
        edge.comm.push_back(is_allowed
                                ? costs_.times(train_.nodes[node].phase) * conversion(id, from, to)
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
      return costs_.times(Phase::forward) * conversion(ValueId(value), rest.rest, uses.kept[i]);
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
