// The choices of a LayoutProblem: ways of ops, how parameters may lie, how values may be kept.
#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "op/factor_choice.h"
#include "search/layout_problem.h"

namespace fourfold::search {

using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Sharding;

namespace {

bool is_sum_on(const Sharding& sharding, AxisId axis) {
  const op::Partial* partial = sharding.partial_on(axis);
  return partial != nullptr && partial->reduction == Reduction::sum;
}

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

/// By which axes the factors of an op are cut that sees its operands so.
plan::FactorAxes cuts_that_follow(const op::FactorRule& rule, const plan::NodeShardings& seen) {
  plan::FactorAxes cuts;
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const Sharding& one =
        i < seen.reads.size() ? seen.reads[i] : seen.outputs[i - seen.reads.size()];
    for (std::size_t dim = 0; dim < std::min(one.dims.size(), rule.operands[i].size()); ++dim) {
      if (rule.operands[i][dim].size() != 1) continue;
      std::vector<AxisId>& axes = cuts[rule.operands[i][dim].front()];
      for (const op::Cut& cut : one.dims[dim])
        if (std::ranges::find(axes, cut.axis) == axes.end()) axes.push_back(cut.axis);
    }
  }
  return cuts;
}

}  // namespace

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
  const auto chosen = start_.ops.find(names_[node]);
  for (const auto& [factor, by] :
       chosen != start_.ops.end() ? chosen->second : cuts_that_follow(rule, fixed_.nodes[node]))
    for (const AxisId axis : by)
      if (const auto place = fixed.find(axis); place != fixed.end()) place->second = factor;
  const op::FactorSizes sizes = plan::factor_sizes(train_, of);
  const auto find = [&] {
    for_each_cuts(*setting_.mesh, axes_, fixed, sizes, padded_of(sizes),
                  [&](const plan::FactorAxes& cuts) { add_ways(node, rule, cuts); });
  };
  find();
  // What follows may be cut in a way that cannot be chosen.
  if (ways_[node].empty()) {
    fixed = axes_not_open();
    find();
  }
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
                     .dims = {plan::cuts_of_dim(sizes.at(factor), by, *setting_.mesh)},
                     .partial = {}}))
      padded = factor;
    else if (!choice.cut(factor, sizes.at(factor), by))
      return;
  // Last, as it leaves all else whole that the operand has.
  if (padded &&
      !cut_padded(rule, *padded,
                  plan::cuts_of_dim(sizes.at(*padded), axes.at(*padded), *setting_.mesh), choice))
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
  if (axes.empty() || rule.linear == Linear::no) return visit(terms);
  const AxisId axis = axes[0];
  for_each_terms(node, rule, shardings, claims, axes.subspan(1), terms, visit);
  const auto cuts = [&](const Sharding& one) { return plan::cuts_axis(one, axis); };
  if (std::ranges::any_of(shardings.reads, cuts) || std::ranges::any_of(claims, cuts)) return;
  const std::vector<ValueId>& reads = train_.nodes[node].reads;
  const std::size_t most = rule.linear == Linear::one ? reads.size() : 1;
  for (std::size_t read = 0; read < most; ++read) {
    const bool is_given =
        rule.linear == Linear::all
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
      if (rule.linear == Linear::all || i == read)
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
    way.seconds += is_read ? costs_.times(node) * conversion(id, at, way.seen.back())
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
  // An axis that is not open may cut it with padding, which the open ones cannot bring about.
  if (rests_[value].empty()) add_rest(value, begun.rest);
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
    if (plan::cuts_axis(rest, axis) || rows % mesh.axes[axis.index()].size != 0) continue;
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

}  // namespace fourfold::search
