#include "plan/derive_shardings.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/format.h"
#include "op/blocks.h"
#include "op/factor_choice.h"

namespace fourfold::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Cuts;
using op::Sharding;

void put_on(GraphShardings& shardings, MeshId mesh) {
  shardings.mesh = mesh;
  for (Sharding& sharding : shardings.values) sharding.mesh = mesh;
  for (NodeShardings& node : shardings.nodes) plan::put_on(node, mesh);
}

void drop_partial(Sharding& sharding, AxisId axis) {
  std::erase_if(sharding.partial, [&](const op::Partial& partial) { return partial.axis == axis; });
}

class Derivation {
 public:
  Derivation(const Graph& graph, const Mesh& mesh, const Layout& layout,
             PersistentShardings& persistent)
      : graph_(graph), mesh_(mesh), layout_(layout), persistent_(persistent) {
    result_.graph = graph.kind;
    result_.values.resize(graph.values.size());
    known_.assign(graph.values.size(), false);
    is_made_.assign(graph.values.size(), false);
    for (const Node& node : graph.nodes)
      for (const ValueId id : node.outputs) is_made_[id.index()] = true;
    for (std::size_t i = 0; i < graph.values.size(); ++i) start(i);
  }

  std::variant<GraphShardings, Infeasible> run() {
    const std::vector<std::string> names =
        layout_.ops.empty() ? std::vector<std::string>(graph_.nodes.size()) : names_of_ops(graph_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (std::string problem = visit(graph_.nodes[i], names[i]); !problem.empty())
        return Infeasible{{BrokenRule{std::string(op::name(graph_.nodes[i].op)), graph_.kind,
                                      std::move(problem)}}};
    put_on(result_, graph_.mesh);
    return std::move(result_);
  }

 private:
  /// Values that no node makes.
  void start(std::size_t i) {
    const Value& value = graph_.values[i];
    Sharding& sharding = result_.values[i];
    known_[i] = true;
    if (value.role == ValueRole::input) {
      sharding = samples(value.shape);
    } else if (value.role == ValueRole::received) {
      // A parameter that another mesh sends arrives whole; what is computed lies as if it were fed.
      if (const auto keep = layout_.activations.find(value.name); keep != layout_.activations.end())
        sharding = changed(received(value.shape), keep->second, value.shape);
      else if (const ParameterLayout* layout = layout_of_padded(value))
        sharding = layout->rest;
    } else if (value.role == ValueRole::step) {
      sharding = of_each_rank(value);
    } else if (const auto place = persistent_.find(value.name);
               graph::is_persistent(value.role) && place != persistent_.end()) {
      sharding = place->second;
    } else {
      // An output that another mesh makes arrives whole.
      known_[i] =
          value.role == ValueRole::counter || (value.role == ValueRole::output && !is_made_[i]);
    }
  }

  /// The layout of a weight that another mesh sends, or of the one to whose gradient it adds, if it
  /// has padding: such a tensor arrives cut.
  const ParameterLayout* layout_of_padded(const Value& value) const {
    const Value& weight = value.gradient_of ? graph_.value(*value.gradient_of) : value;
    const auto place = layout_.parameters.find(weight.name);
    const bool is_padded_there = place != layout_.parameters.end() && is_padded(place->second.rest);
    return is_padded_there ? &place->second : nullptr;
  }

  /// What is fed: ranks divide the samples, or have all of them.
  Sharding samples(const Shape& shape) const {
    Sharding sharding;
    sharding.dims.resize(shape.rank());
    if (!graph_.feeds_are_whole) sharding.dims[0] = cuts_by(mesh_, layout_.samples);
    return normal(std::move(sharding));
  }

  /// A computed tensor from another mesh lies as if it were fed, where its first dim can be that of
  /// samples, which ranks divide evenly. A table, as the noise of ten times, is whole on all ranks.
  Sharding received(const Shape& shape) const {
    Sharding sharding = samples(shape);
    if (sharding.dims.empty()) return sharding;
    std::int64_t ranks = 1;
    for (const op::Cut& cut : sharding.dims[0]) ranks *= mesh_.axes[cut.axis.index()].size;
    return shape[0] % ranks == 0 ? sharding : Sharding{};
  }

  /// A field of the step block is the same on all ranks, or each rank has a term of the sum.
  Sharding of_each_rank(const Value& value) const {
    Sharding sharding;
    const auto field = op::find_block_field(value.name);
    if (!field || !field->is_own_of_each_rank) return sharding;
    for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis)
      if (mesh_.axes[axis].size > 1) sharding.partial.push_back({AxisId(axis), op::Reduction::sum});
    return sharding;
  }

  /// The layout of a parameter, of one that another mesh sends, or of a gradient's parameter. A sum
  /// that other state learns from has none.
  const ParameterLayout* layout_of(const Value& value) const {
    const Value* parameter = nullptr;
    if (graph::is_weight(value) || value.role == ValueRole::received) parameter = &value;
    if (value.role == ValueRole::gradient) parameter = &graph_.value(value.gradient_of.value());
    if (parameter == nullptr) return nullptr;
    const auto place = layout_.parameters.find(parameter->name);
    return place == layout_.parameters.end() ? nullptr : &place->second;
  }

  /// Parameters that the layout chose decide first, then what is known, the largest first, as the
  /// others are cheaper to bring to it; those of one size in the order of operands.
  /// An op that takes any element sees state as it lies: it starts, updates or digests it.
  op::FactorChoice choose(const Node& node, const std::string& name, const op::FactorRule& rule) {
    op::FactorChoice choice(rule, mesh_);
    const bool sees_state = plan::sees_state(graph_, node);
    if (const auto chosen = layout_.ops.find(name); chosen != layout_.ops.end() && !sees_state) {
      follow(chosen->second, node, name, rule, choice);
      return choice;
    }
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      if (const ParameterLayout* layout = layout_of(graph_.value(operand(node, i)));
          layout != nullptr && layout->use && !sees_state)
        choice.follow(i, *layout->use);
    // What is made for each sample, out of nothing that has samples, is divided as they are.
    op::for_each_place(node.op, [&](const op::Place& place, const auto&) {
      if (place.told == op::Place::Told::samples && place.operand >= node.reads.size())
        choice.follow(place.operand, samples(graph_.value(operand(node, place.operand)).shape));
    });
    // State is updated where its moments lie, whatever its update was computed from.
    if (const auto weight = op::operand_of(node.op, op::State::weight);
        weight && op::updates(node.op, op::State::weight))
      if (const ParameterLayout* layout = layout_of(graph_.value(operand(node, *weight))))
        choice.follow(*weight, layout->moments);
    for (const std::size_t i : largest_first(node, rule.operands.size())) {
      const ValueId id = operand(node, i);
      const Value& value = graph_.value(id);
      const ParameterLayout* layout = layout_of(value);
      if (node.phase == Phase::update && value.role == ValueRole::gradient && layout != nullptr)
        choice.follow(i, layout->moments);
      else if (known_[id.index()] && (layout == nullptr || op::takes_any_element(node.op)))
        choice.follow(i, result_.values[id.index()]);
    }
    return choice;
  }

  /// Cuts the factors of a node as the layout has chosen; but a cache lies as it was first met.
  void follow(const FactorAxes& chosen, const Node& node, const std::string& name,
              const op::FactorRule& rule, op::FactorChoice& choice) {
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      if (const ValueId id = operand(node, i);
          graph_.value(id).role == ValueRole::cache && known_[id.index()])
        choice.follow(i, result_.values[id.index()]);
    const op::FactorSizes sizes = factor_sizes(graph_, node);
    std::vector<LeftOut> left;
    for (const auto& [factor, axes] : chosen) {
      std::int64_t ranks = 1;
      for (const AxisId axis : axes) ranks *= mesh_.axes[axis.index()].size;
      const auto place = sizes.find(factor);
      const std::int64_t size = place == sizes.end() ? 0 : place->second;
      if (ranks > 1 && (size == 0 || !choice.cut(factor, size, axes)))
        left.push_back({name, factor, size, ranks});
    }
    // Last, as it leaves all else whole that the operand has.
    for (LeftOut& one : left)
      if (!cut_padded(node, rule, one.factor, chosen.at(one.factor), choice))
        result_.left_out.push_back(std::move(one));
  }

  /// Cuts a factor that the axes do not divide as an operand has it that lies so with padding.
  bool cut_padded(const Node& node, const op::FactorRule& rule, char factor,
                  const std::vector<AxisId>& axes, op::FactorChoice& choice) const {
    for (std::size_t i = 0; i < rule.operands.size(); ++i) {
      const ValueId id = operand(node, i);
      const ParameterLayout* layout = layout_of(graph_.value(id));
      if (layout == nullptr && !known_[id.index()]) continue;
      const Sharding& lies = layout != nullptr ? layout->rest : result_.values[id.index()];
      for (std::size_t dim = 0; dim < lies.dims.size(); ++dim) {
        const Cuts& cuts = lies.dims[dim];
        if (rule.operands[i][dim] != std::string_view(&factor, 1) ||
            !std::ranges::equal(cuts, axes, {}, &op::Cut::axis) ||
            std::ranges::any_of(cuts, [](const op::Cut& cut) { return !cut.stride; }))
          continue;
        Sharding padded;
        padded.dims.resize(lies.dims.size());
        padded.dims[dim] = cuts;
        choice.follow(i, padded);
        return choice.cuts_of(i).dims.size() > dim && choice.cuts_of(i).dims[dim] == cuts;
      }
    }
    return false;
  }

  std::vector<std::size_t> largest_first(const Node& node, std::size_t count) const {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) {
      return graph_.value(operand(node, i)).shape.elements();
    });
    return order;
  }

  static ValueId operand(const Node& node, std::size_t i) {
    return i < node.reads.size() ? node.reads[i] : node.outputs[i - node.reads.size()];
  }

  std::string visit(const Node& node, const std::string& name) {
    const op::FactorRule rule = op::factors(node.op, graph_.shapes(node.reads)).of_any_form();
    const op::FactorChoice choice = choose(node, name, rule);
    NodeShardings shardings;
    std::vector<Sharding> claims;
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      (i < node.reads.size() ? shardings.reads : claims).push_back(choice.cuts_of(i));
    for (std::size_t i = 0; i < node.reads.size(); ++i)
      if (graph_.value(node.reads[i]).role == ValueRole::step)
        shardings.reads[i].partial = result_.values[node.reads[i].index()].partial;
    leave_partial(node, rule, claims, shardings.reads);
    op::Propagation given = op::propagate(rule, shardings.reads, claims, mesh_);
    if (!given.problem.empty()) return given.problem;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      given.outputs[i] = normal(std::move(given.outputs[i]));
      keep(node.outputs[i], given.outputs[i]);
    }
    shardings.outputs = std::move(given.outputs);
    result_.nodes.push_back(std::move(shardings));
    return {};
  }

  /// Reads that are kept as partial sums stay so where the rule is linear in them, and no factor is
  /// cut by the axis; else they are reduced. Of two factors of a product the first stays.
  void leave_partial(const Node& node, const op::FactorRule& rule,
                     const std::vector<Sharding>& claims, std::vector<Sharding>& reads) const {
    using Linear = op::FactorRule::Linear;
    if (rule.linear == Linear::no) return;
    const auto cuts = [](const std::vector<Sharding>& list, AxisId axis) {
      return std::ranges::any_of(list, [&](const Sharding& one) { return cuts_axis(one, axis); });
    };
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) {
      const AxisId axis(a);
      const op::Partial sum{axis, op::Reduction::sum};
      std::vector<std::size_t> partial;
      for (std::size_t i = 0; i < reads.size(); ++i)
        if (const op::Partial* found = kept_activation(node.reads[i]).partial_on(axis);
            found != nullptr && *found == sum)
          partial.push_back(i);
      if (partial.empty() || cuts(reads, axis) || cuts(claims, axis)) continue;
      if (rule.linear == Linear::all && partial.size() < reads.size()) continue;
      if (rule.linear == Linear::first && partial[0] != 0) continue;
      if (rule.linear != Linear::all) partial.resize(1);
      for (const std::size_t i : partial) reads[i].partial.push_back(sum);
    }
  }

  const Sharding& kept_activation(ValueId id) const {
    static const Sharding whole;
    return graph_.value(id).role == ValueRole::activation ? result_.values[id.index()] : whole;
  }

  /// Decides how an output is kept, at its first producer. What others add to a gradient must be
  /// partial wherever that is.
  void keep(ValueId id, const Sharding& given) {
    const Value& value = graph_.value(id);
    Sharding& kept = result_.values[id.index()];
    if (known_[id.index()]) {
      if (value.role == ValueRole::gradient)
        std::erase_if(kept.partial, [&](const op::Partial& partial) {
          return given.partial_on(partial.axis) == nullptr;
        });
      return;
    }
    known_[id.index()] = true;
    const auto change = layout_.activations.find(value.name);
    if (value.role == ValueRole::result || value.role == ValueRole::output)
      kept = {};
    else if (graph::is_persistent(value.role))
      kept = persistent_.try_emplace(value.name, reduced(given)).first->second;
    else if (change != layout_.activations.end())
      kept =
          changed(change->second.sums_stay ? given : reduced(given), change->second, value.shape);
    else if (value.role == ValueRole::gradient)
      kept = sum_sharding(value, given);
    else
      kept = reduced(value.gradient_of ? result_.values[value.gradient_of->index()] : given);
  }

  static Sharding reduced(Sharding sharding) {
    sharding.partial.clear();
    return sharding;
  }

  /// A gradient is summed over micro-batches as its parameter lies at rest, reduced on the axes
  /// that cut it there and still partial on the others; small ones as they are made.
  Sharding sum_sharding(const Value& value, const Sharding& given) const {
    const ParameterLayout* layout = layout_of(value);
    if (layout == nullptr || !layout->use || layout->is_received) return given;
    Sharding sum = layout->rest;
    for (const op::Partial& partial : given.partial)
      if (!cuts_axis(layout->rest, partial.axis)) sum.partial.push_back(partial);
    return sum;
  }

  Sharding changed(Sharding sharding, const Keep& keep, const Shape& shape) const {
    sharding.dims.resize(shape.rank());
    for (const std::size_t dim : keep.whole) sharding.dims[dim].clear();
    for (const Keep::Wish& wish : keep.wishes) {
      const std::int64_t ranks = mesh_.axes[wish.axis.index()].size;
      if (ranks == 1 || (wish.of_fed_dim && graph_.feeds_are_whole)) continue;
      if (cuts_axis(sharding, wish.axis)) continue;
      const auto divided = std::find_if(wish.dims.begin(), wish.dims.end(), [&](std::size_t dim) {
        return op::local_size(shape[dim], sharding.dims[dim], mesh_) % ranks == 0;
      });
      if (divided == wish.dims.end()) continue;
      sharding.dims[*divided].push_back({wish.axis, std::nullopt});
      drop_partial(sharding, wish.axis);
    }
    return normal(std::move(sharding));
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const Layout& layout_;
  PersistentShardings& persistent_;
  GraphShardings result_;
  std::vector<bool> known_;    // by value: how it is kept is decided
  std::vector<bool> is_made_;  // by a node
};

}  // namespace

Sharding normal(Sharding sharding) {
  if (std::ranges::all_of(sharding.dims, &Cuts::empty)) sharding.dims.clear();
  return sharding;
}

void put_on(NodeShardings& node, MeshId mesh) {
  for (auto* list : {&node.reads, &node.outputs})
    for (Sharding& sharding : *list) sharding.mesh = mesh;
}

PersistentShardings persistent_shardings(const graph::Graph& train, const Layout& layout) {
  PersistentShardings shardings;
  for (const auto& [name, parameter] : layout.parameters) shardings[name] = parameter.rest;
  for (const Node& node : train.nodes) {
    // An average that a step begins with is whole on every rank.
    for (const ValueId id : node.reads)
      if (train.value(id).role == ValueRole::average) shardings.try_emplace(train.value(id).name);
    if (!op::updates(node.op, op::State::weight)) continue;
    const op::Operands operands = op::operands(node.op);
    const ValueId weight =
        node.outputs[op::operand_of(node.op, op::State::weight).value() - node.reads.size()];
    for (std::size_t i = node.reads.size(); i < operands.size(); ++i)
      if (operands[i].state == op::State::moment)
        shardings[train.value(node.outputs[i - node.reads.size()]).name] =
            layout.parameters.at(train.value(weight).name).moments;
  }
  return shardings;
}

std::vector<std::string> names_of_ops(const graph::Graph& graph) {
  std::vector<std::string> names;
  std::map<ValueId, int> producers;
  for (const Node& node : graph.nodes) {
    std::string& name = names.emplace_back(graph.value(node.outputs[0]).name);
    if (const int number = ++producers[node.outputs[0]]; number > 1) name += format("#{}", number);
  }
  return names;
}

bool sees_state(const Graph& graph, const Node& node) {
  if (node.phase == Phase::update) return true;
  const auto is_state = [&](ValueId id) {
    const ValueRole role = graph.value(id).role;
    return graph::is_persistent(role) || role == ValueRole::gradient;
  };
  return op::takes_any_element(node.op) &&
         (std::ranges::any_of(node.reads, is_state) || std::ranges::any_of(node.outputs, is_state));
}

op::FactorSizes factor_sizes(const Graph& graph, const Node& node) {
  const op::FactorRule rule = op::factors(node.op, graph.shapes(node.reads)).of_any_form();
  op::FactorSizes sizes;
  for (std::size_t i = 0; i < rule.operands.size(); ++i) {
    const ValueId id = i < node.reads.size() ? node.reads[i] : node.outputs[i - node.reads.size()];
    for (std::size_t dim = 0; dim < rule.operands[i].size(); ++dim)
      for (const char factor : rule.operands[i][dim]) {
        if (rule.is_whole(factor)) continue;
        const auto size = rule.sizes.find(factor);
        sizes[factor] = size == rule.sizes.end() ? graph.value(id).shape[dim] : size->second;
      }
  }
  return sizes;
}

std::variant<GraphShardings, Infeasible> derive_shardings(const graph::Graph& graph,
                                                          const Mesh& mesh, const Layout& layout,
                                                          PersistentShardings& persistent) {
  return Derivation(graph, mesh, layout, persistent).run();
}

}  // namespace fourfold::plan
