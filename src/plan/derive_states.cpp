// B batch, T time, C hidden, H heads, D head width, P positions.
#include "plan/derive_states.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using op::Sharding;
using Cuts = std::vector<op::Cut>;

/// Dims as a list, empty where none is cut: the form in which states are compared.
Sharding state_of(std::vector<Cuts> dims) {
  Sharding state{MeshId(0), std::move(dims), {}};
  if (state.replicated()) state.dims.clear();
  return state;
}

const Cuts& cuts_of(const Sharding& state, std::size_t dim) {
  static const Cuts none;
  return dim < state.dims.size() ? state.dims[dim] : none;
}

class Derivation {
 public:
  Derivation(const Graph& graph, const Mesh& mesh, const Annotation& annotation,
             PersistentStates& persistent)
      : graph_(graph), mesh_(mesh), annotation_(annotation), persistent_(persistent) {
    result_.graph = graph.name;
    result_.values.resize(graph.values.size());
    known_.assign(graph.values.size(), false);
    is_batched_ = graph.name == "train" || graph.name == "evaluate";
    if (is_batched_) batch_ = cuts_by(mesh, {annotation.axes.data, annotation.axes.z});
    for (std::size_t i = 0; i < graph.values.size(); ++i) start(i);
  }

  std::variant<GraphStates, Infeasible> run() {
    for (const Node& node : graph_.nodes) {
      if (std::string problem = visit(node); !problem.empty())
        return Infeasible{
            {{{}, format("{} in graph {}: {}", op::name(node.op), graph_.name, problem)}}};
    }
    return std::move(result_);
  }

 private:
  using Letters = std::map<char, Cuts>;

  /// States of values that no node makes.
  void start(std::size_t i) {
    const Value& value = graph_.values[i];
    if (graph::is_feed(value.role)) result_.values[i] = state_of({batch_, {}});
    if (const auto place = persistent_.find(value.name);
        graph::is_persistent(value.role) && place != persistent_.end())
      result_.values[i] = place->second;
    if (value.role == ValueRole::received && value.shape.rank() == 3)
      result_.values[i] = stream_state(value.shape);
    if (value.name == "step.vote") result_.values[i] = term_of_each_rank();
    known_[i] = graph::is_feed(value.role) || value.role == ValueRole::step ||
                value.role == ValueRole::received || value.role == ValueRole::counter ||
                persistent_.contains(value.name);
  }

  /// What every rank's own host says: a term of the sum over all of them.
  Sharding term_of_each_rank() const {
    Sharding state = state_of({});
    for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis)
      if (mesh_.axes[axis].size > 1) state.partial.push_back({AxisId(axis), op::Reduction::sum});
    return state;
  }

  const ParameterStates* parameter(const Value& value) const {
    if (value.role == ValueRole::parameter) return &annotation_.parameters.at(value.name);
    if (value.role == ValueRole::received) {
      const auto place = annotation_.parameters.find(value.name);
      return place == annotation_.parameters.end() ? nullptr : &place->second;
    }
    constexpr std::string_view prefix = "gradient/";
    if (value.role == ValueRole::gradient)
      return &annotation_.parameters.at(value.name.substr(prefix.size()));
    return nullptr;
  }

  static void assign(Letters& letters, std::string_view names, const Sharding& state) {
    for (std::size_t dim = 0; dim < names.size(); ++dim)
      letters.try_emplace(names[dim], cuts_of(state, dim));
  }

  /// Which cuts each factor of a node has: parameters decide first, then what is read, in order.
  Letters choose_letters(const Node& node, const op::FactorRule& rule) const {
    Letters letters;
    for (const char letter : rule.whole) letters[letter] = {};
    const std::size_t reads = node.reads.size();
    for (std::size_t i = 0; i < rule.operands.size(); ++i) {
      const ValueId id = i < reads ? node.reads[i] : node.outputs[i - reads];
      const ParameterStates* states = parameter(graph_.value(id));
      if (states != nullptr && states->use && node.phase != graph::Phase::update &&
          !is_state_op(node.op))
        assign(letters, rule.operands[i], *states->use);
    }
    if (std::holds_alternative<op::Matmul>(node.op)) {
      // What is left are the rows of an activation: samples and time.
      bool is_first = true;
      for (std::size_t i = 0; i < reads; ++i)
        for (const char letter : rule.operands[i])
          if (letters.try_emplace(letter, is_first ? batch_ : Cuts()).second) is_first = false;
      return letters;
    }
    for (std::size_t i = 0; i < rule.operands.size(); ++i) {
      const ValueId id = i < reads ? node.reads[i] : node.outputs[i - reads];
      const Value& value = graph_.value(id);
      const ParameterStates* states = parameter(value);
      if (node.phase == graph::Phase::update && value.role == ValueRole::gradient)
        assign(letters, rule.operands[i], states->moments);
      else if (known_[id.index()] && (states == nullptr || is_state_op(node.op)))
        assign(letters, rule.operands[i], result_.values[id.index()]);
    }
    return letters;
  }

  /// Ops that see persistent values as they lie.
  static bool is_state_op(const op::Op& op) {
    return std::holds_alternative<op::Fill>(op) || std::holds_alternative<op::InitNormal>(op) ||
           std::holds_alternative<op::Digest>(op);
  }

  Sharding assemble(const Letters& letters, const std::string& names) const {
    std::vector<Cuts> dims;
    for (const char letter : names) {
      const auto place = letters.find(letter);
      dims.push_back(place == letters.end() ? Cuts() : place->second);
    }
    return state_of(std::move(dims));
  }

  std::string visit(const Node& node) {
    const op::FactorRule rule = op::factors(node.op, graph_.shapes(node.reads));
    const Letters letters = choose_letters(node, rule);
    NodeStates states;
    std::vector<Sharding> claims;
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      (i < node.reads.size() ? states.reads : claims)
          .push_back(assemble(letters, rule.operands[i]));
    for (std::size_t i = 0; i < node.reads.size(); ++i)
      if (graph_.value(node.reads[i]).role == ValueRole::step)
        states.reads[i].partial = result_.values[node.reads[i].index()].partial;
    op::Propagation given = op::propagate(rule, states.reads, claims);
    if (!given.problem.empty()) return given.problem;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Sharding& output = given.outputs[i];
      if (output.replicated()) output.dims.clear();
      keep(node, node.outputs[i], output);
    }
    states.outputs = std::move(given.outputs);
    result_.nodes.push_back(std::move(states));
    return {};
  }

  /// Decides the state in which an output is kept, at its first producer.
  void keep(const Node& node, ValueId id, const Sharding& given) {
    const Value& value = graph_.value(id);
    if (known_[id.index()]) return;
    known_[id.index()] = true;
    Sharding& kept = result_.values[id.index()];
    switch (value.role) {
      case ValueRole::result:
      case ValueRole::output:
        kept = Sharding{MeshId(0), {}, {}};
        return;
      case ValueRole::gradient:
        kept = sum_state(value, given);
        return;
      case ValueRole::cache:
        kept = persistent_.try_emplace(value.name, given).first->second;
        return;
      default:
        kept = settle(node, value, given);
    }
  }

  /// A gradient is summed over micro-batches in the rest state of its parameter, reduced on the
  /// axes that cut it there and still partial on the others; small ones as they are made.
  Sharding sum_state(const Value& value, const Sharding& given) const {
    const ParameterStates& states = *parameter(value);
    if (!states.use || states.is_received) return given;
    Sharding state = states.rest;
    for (const op::Partial& partial : given.partial) {
      const bool is_cut = std::any_of(state.dims.begin(), state.dims.end(), [&](const Cuts& cuts) {
        return std::any_of(cuts.begin(), cuts.end(),
                           [&](const op::Cut& cut) { return cut.axis == partial.axis; });
      });
      if (!is_cut) state.partial.push_back(partial);
    }
    return state;
  }

  Sharding settle(const Node& node, const Value& value, const Sharding& given) const {
    if (value.gradient_of) return result_.values[value.gradient_of->index()];
    Sharding state = given;
    state.partial.clear();
    if (std::holds_alternative<op::Embedding>(node.op)) return stream_state(value.shape);
    if (!std::holds_alternative<op::Matmul>(node.op)) return state;
    const ParameterStates& weight = *parameter(graph_.value(node.reads[1]));
    if (weight.columns == Columns::hidden) return stream_state(value.shape);
    if (value.shape.rank() == 5) return core_state(value.shape, given);
    return state;
  }

  /// The residual stream (B, T, C): hidden on y, and time on x where the sequence is sharded.
  Sharding stream_state(const Shape& shape_BTC) const {
    const std::int64_t x = size(annotation_.axes.x);
    const bool cut_time = annotation_.shard_sequence && is_batched_ && shape_BTC[1] % x == 0;
    return state_of({batch_, cut_time ? cuts_by(mesh_, {annotation_.axes.x}) : Cuts(),
                     cuts_by(mesh_, {annotation_.axes.y})});
  }

  /// The attention core (B, T, 3, H, D) is shared out over x and y, as ATP does: heads on both,
  /// else samples on what does not divide the heads, else it is repeated.
  Sharding core_state(const Shape& shape, const Sharding& given) const {
    std::vector<Cuts> dims(5);
    for (std::size_t dim = 0; dim < 5; ++dim) dims[dim] = cuts_of(given, dim);
    const auto local = [&](std::size_t dim) {
      return op::local_size(shape[dim], dims[dim], mesh_);
    };
    const auto add_one_of = [&](AxisId axis, std::initializer_list<std::size_t> choices) {
      if (size(axis) == 1) return;
      for (const std::size_t dim : choices)
        if (local(dim) % size(axis) == 0) {
          dims[dim].push_back({axis, std::nullopt});
          return;
        }
    };
    const bool width_cut = !dims[4].empty();
    dims[4].clear();
    if (width_cut) {  // x does not divide the heads
      add_one_of(annotation_.axes.y, {0});
      add_one_of(annotation_.axes.x, {0});
    } else {
      add_one_of(annotation_.axes.y, {3, 0});
    }
    return state_of(std::move(dims));
  }

  std::int64_t size(AxisId axis) const { return mesh_.axes[axis.index()].size; }

  const Graph& graph_;
  const Mesh& mesh_;
  const Annotation& annotation_;
  PersistentStates& persistent_;
  GraphStates result_;
  std::vector<bool> known_;  // by value: its kept state is decided
  bool is_batched_ = false;
  Cuts batch_;  // of dim B
};

}  // namespace

PersistentStates persistent_states(const graph::Graph& train, const Annotation& annotation) {
  PersistentStates states;
  for (const auto& [name, parameter] : annotation.parameters) states[name] = parameter.rest;
  for (const Node& node : train.nodes) {
    if (!std::holds_alternative<op::AdamW>(node.op)) continue;
    const Sharding& moments = annotation.parameters.at(train.value(node.outputs[0]).name).moments;
    for (const std::size_t i : {1U, 2U}) states[train.value(node.outputs[i]).name] = moments;
  }
  return states;
}

std::variant<GraphStates, Infeasible> derive_states(const graph::Graph& graph, const Mesh& mesh,
                                                    const Annotation& annotation,
                                                    PersistentStates& persistent) {
  return Derivation(graph, mesh, annotation, persistent).run();
}

}  // namespace fourfold::plan
