#include "plan/split_stages.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "graph/builder.h"

namespace fourfold::plan {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;

class Splitter {
 public:
  Splitter(const Graph& source, const std::vector<std::int64_t>& last_layers, std::size_t meshes)
      : source_(source),
        last_layers_(last_layers),
        num_meshes_(meshes),
        layers_(layers_of_nodes(source)) {
    for (std::size_t mesh = 0; mesh < num_meshes_; ++mesh) builders_.emplace_back(source.kind);
    find_homes();
  }

  Stages run() {
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::update})
      for (std::size_t i = 0; i < source_.nodes.size(); ++i)
        if (source_.nodes[i].phase == phase) place(source_.nodes[i], stage_of_layer(layers_[i]));
    share_results();
    share_outputs();
    for (std::size_t mesh = 0; mesh < num_meshes_; ++mesh) {
      result_.graphs.push_back(builders_[mesh].take());
      result_.graphs.back().mesh = MeshId(mesh);
      result_.graphs.back().feeds_are_whole = source_.feeds_are_whole;
    }
    std::stable_sort(result_.edges.begin(), result_.edges.end(),
                     [&](const Edge& a, const Edge& b) { return departure(a) < departure(b); });
    return std::move(result_);
  }

 private:
  /// When a value leaves: parameters and gradients at the start of a phase, activations as they are
  /// made, sums as they are first read.
  std::pair<Phase, std::size_t> departure(const Edge& edge) const {
    const ValueId id = *source_.find(edge.value);
    const ValueRole role = source_.value(id).role;
    if (role == ValueRole::result)
      return {edge.phase, source_.nodes.size() + round_.at(edge.value)};
    std::size_t made = 0;
    if (role == ValueRole::activation || role == ValueRole::output)
      for (std::size_t i = 0; i < source_.nodes.size(); ++i)
        if (std::count(source_.nodes[i].outputs.begin(), source_.nodes[i].outputs.end(), id) > 0)
          made = i + 1;
    return {edge.phase, made};
  }

  std::size_t stage_of_layer(std::int64_t layer) const {
    std::size_t stage = 0;
    while (stage < last_layers_.size() && layer > last_layers_[stage]) ++stage;
    return stage;
  }
  std::size_t mesh_of(std::size_t stage) const { return stage % num_meshes_; }

  /// True for what an update may change with what a step has found: weights, and other state that
  /// a step begins with.
  static bool is_learned(const Value& value) {
    return value.role == ValueRole::parameter || value.role == ValueRole::average;
  }

  /// The mesh that owns each parameter, and other state that learns: that of its first reader.
  void find_homes() {
    for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
      const Node& node = source_.nodes[i];
      if (node.phase != Phase::forward) continue;
      const std::size_t mesh = mesh_of(stage_of_layer(layers_[i]));
      for (const ValueId id : node.reads)
        if (is_learned(source_.value(id))) home_.emplace(source_.value(id).name, mesh);
    }
  }

  void place(const Node& node, std::size_t stage_of_node) {
    if (node.phase != Phase::update) {
      add(node, adds_terms_of(node).value_or(stage_of_node));
      return;
    }
    const bool is_vote = node.op.is<op::Vote>(), counts_found = node.op.is<op::CountNonFinite>(),
               is_shared = is_vote || counts_found || node.op.is<op::UpdateControl>() ||
                           node.op.is<op::CountUpdate>();
    if (is_vote) exchange_sums(node.reads, 1);
    if (counts_found) exchange_sums(node.reads, 4);
    if (!is_shared) {
      add(node, mesh_of_update(node));
      return;
    }
    for (std::size_t mesh = 0; mesh < num_meshes_; ++mesh) add(node, mesh);
    if (is_vote)
      exchange_sums(node.outputs, 3);
    else
      for (const ValueId id : node.outputs) shared_.insert(id);
  }

  /// The stage whose mesh makes both terms of a sum in the backward phase, the one that comes later
  /// there: the sum is made there, and sent once.
  std::optional<std::size_t> adds_terms_of(const Node& node) const {
    if (node.phase != Phase::backward || !node.op.is<op::Add>()) return std::nullopt;
    std::optional<std::size_t> maker;
    for (const ValueId id : node.reads) {
      const auto made = made_by_.find(id);
      if (source_.value(id).role != ValueRole::activation || made == made_by_.end())
        return std::nullopt;
      if (maker && mesh_of(*maker) != mesh_of(made->second)) return std::nullopt;
      maker = std::min(maker.value_or(made->second), made->second);
    }
    return maker;
  }

  /// An update node belongs to the home of what it reads or updates, or of what learns from that;
  /// else to the mesh where the update made what it reads.
  std::size_t mesh_of_update(const Node& node) const {
    for (const auto* operands : {&node.reads, &node.outputs})
      for (const ValueId id : *operands) {
        const Value& value = source_.value(id);
        const Value& learned =
            value.role == ValueRole::gradient ? source_.value(value.gradient_of.value()) : value;
        if (const auto home = home_.find(learned.name); home != home_.end()) return home->second;
      }
    for (const ValueId id : node.reads)
      if (const auto made = made_by_.find(id);
          made != made_by_.end() && source_.value(id).role == ValueRole::activation)
        return mesh_of(made->second);
    fail_internal(format("{} updates what has a mesh", op::name(node.op)));
  }

  /// For an update any stage of the mesh will do.
  void add(const Node& node, std::size_t stage) {
    Builder& builder = builders_[mesh_of(stage)];
    builder.set_phase(node.phase);
    builder.set_layer(node.layer);
    builder.set_label(node.label);
    builder.set_stage(stage);
    std::vector<ValueId> reads, outputs;
    for (const ValueId id : node.reads) reads.push_back(read(id, stage, node.phase));
    for (const ValueId id : node.outputs) outputs.push_back(own(source_.value(id), mesh_of(stage)));
    for (const ValueId id : node.outputs) {
      made_by_[id] = stage;
      makers_[id].insert(mesh_of(stage));
    }
    builder.apply_to(node.op, std::move(reads), std::move(outputs));
    for (const ValueId id : node.outputs) note_gradient(source_.value(id), mesh_of(stage));
  }

  /// The mesh's own value of that name.
  ValueId own(const Value& value, std::size_t mesh) {
    require(
        value.role != ValueRole::cache || cache_on_.emplace(value.name, mesh).first->second == mesh,
        "what the next run of a graph goes on from stays on one mesh");
    Builder& builder = builders_[mesh];
    const ValueId id =
        builder.given(value.name, value.shape, value.element, value.role, value.init);
    builder.set_labels(id, value.label, value.gradient_label);
    if (value.gradient_of) {
      const Value& forward = source_.value(*value.gradient_of);
      if (const auto place = builder.find(forward.name))
        builder.set_gradient_of(id, *place);
      else if (value.role == ValueRole::gradient)
        builder.set_gradient_of(id, stand_in(forward, builder));
    }
    return id;
  }

  /// For state of another mesh that learns from what is found on this one, which does not read it.
  static ValueId stand_in(const Value& state, Builder& builder) {
    return builder.given(state.name, state.shape, state.element, ValueRole::received);
  }

  ValueId read(ValueId id, std::size_t stage, Phase phase) {
    const Value& value = source_.value(id);
    const std::size_t mesh = mesh_of(stage);
    if (value.role == ValueRole::gradient) return whole_gradient(value, mesh);
    std::optional<std::size_t> maker;  // of a weight, the first stage of its home
    const bool is_weight = graph::is_weight(value) && phase != Phase::update;
    require(is_weight || value.role != ValueRole::average || phase == Phase::update ||
                home_.at(value.name) == mesh,
            "state that is no weight is read by its own mesh");
    if (value.role == ValueRole::parameter || is_weight) maker = home_.at(value.name);
    if (value.role == ValueRole::activation) maker = made_by_.at(id);
    if (!maker || mesh_of(*maker) == mesh) return own(value, mesh);
    return receive(value, value.name, *maker, stage, phase);
  }

  /// From a stage to another one, or a mesh, which then stands for its first stage.
  ValueId receive(const Value& value, const std::string& into, std::size_t from, std::size_t to,
                  Phase phase, ValueRole role = ValueRole::received) {
    if (received_.emplace(into, mesh_of(to)).second)
      result_.edges.push_back({source_.kind,
                               value.name,
                               into,
                               MeshId(mesh_of(from)),
                               MeshId(mesh_of(to)),
                               phase,
                               graph::is_weight(value),
                               value.shape,
                               value.element,
                               {},
                               {},
                               from,
                               to});
    Builder& builder = builders_[mesh_of(to)];
    const ValueId id = builder.given(into, value.shape, value.element, role, value.init);
    builder.set_labels(id, value.label, value.gradient_label);
    return id;
  }

  // --- what several meshes add to

  void note_gradient(const Value& value, std::size_t mesh) {
    if (value.role == ValueRole::gradient) producers_[value.name].insert(mesh);
  }

  /// A gradient at its home, with what other meshes add to it. A mesh that has a parameter adds to
  /// its gradient; other state may learn from what other meshes find.
  ValueId whole_gradient(const Value& value, std::size_t mesh) {
    Builder& builder = builders_[mesh];
    const std::set<std::size_t>& producers = producers_.at(value.name);
    if (!producers.contains(mesh)) {
      require(producers.size() == 1, "one mesh finds what the state of another one learns from");
      const std::size_t from = *producers.begin();
      const ValueId found =
          receive(value, format("{}/from.{}", value.name, from), from, mesh, Phase::update);
      const Value& state = source_.value(value.gradient_of.value());
      builder.set_gradient_of(found, builder.find(state.name).value());
      return found;
    }
    ValueId sum = own(value, mesh);
    const std::string total = value.name + "/total";
    if (const auto place = builder.find(total)) return *place;
    for (const std::size_t other : producers) {
      if (other == mesh) continue;
      const ValueId term =
          receive(value, format("{}/from.{}", value.name, other), other, mesh, Phase::update);
      builder.set_gradient_of(term, builder.graph().value(sum).gradient_of.value());
      sum = builder.apply_one(op::Add{}, {sum, term}, total);
      builder.set_labels(sum, value.label, value.label);
    }
    return sum;
  }

  /// The results among these become the sums over all meshes: in this round those that several
  /// meshes make, in the next one those of one mesh. What is made of a sum goes in a later round.
  void exchange_sums(const std::vector<ValueId>& ids, std::size_t round) {
    const Phase phase = source_.nodes.back().phase;
    for (const ValueId id : ids) {
      const Value& field = source_.value(id);
      if (field.role != ValueRole::result || !shared_.insert(id).second) continue;
      const std::set<std::size_t>& makers = makers_.at(id);
      round_[field.name] = round + (makers.size() == 1 ? 1 : 0);
      for (std::size_t to = 0; to < num_meshes_; ++to) {
        if (makers.size() > 1)
          add_up(field, makers, to, phase);
        else if (const std::size_t from = *makers.begin(); from != to)
          receive(field, field.name, from, to, phase);  // it arrives in the field itself
      }
    }
  }

  /// The terms of all makers in the order of their meshes, so that all meshes have the same bits.
  void add_up(const Value& field, const std::set<std::size_t>& makers, std::size_t to,
              Phase phase) {
    Builder& builder = builders_[to];
    builder.set_phase(phase);
    builder.set_layer(std::nullopt);
    builder.set_stage(to);
    const ValueId sum = own(field, to);
    std::optional<ValueId> before;  // the sum of the meshes before this one
    for (const std::size_t from : makers) {
      if (from == to) {
        if (before) builder.apply_to(op::Add{}, {sum, *before}, {sum});
        continue;
      }
      const std::string name = format("{}/from.{}", field.name, from);
      const ValueId term = receive(field, name, from, to, phase);
      if (from > to)
        builder.apply_to(op::Add{}, {sum, term}, {sum});
      else
        before = before ? builder.apply_one(op::Add{}, {*before, term}, name + "/sum") : term;
    }
  }

  /// What is left, for the host of every rank: results that a part of the meshes made and that no
  /// decision has read.
  void share_results() {
    std::vector<ValueId> left;
    for (std::size_t i = 0; i < source_.values.size(); ++i)
      if (makers_.contains(ValueId(i))) left.emplace_back(i);
    exchange_sums(left, 1);
  }

  /// Every host reads what a graph gives.
  void share_outputs() {
    for (std::size_t i = 0; i < source_.values.size(); ++i) {
      const Value& value = source_.values[i];
      if (value.role != ValueRole::output) continue;
      const std::size_t from = made_by_.at(ValueId(i));
      for (std::size_t to = 0; to < num_meshes_; ++to)
        if (to != mesh_of(from))
          receive(value, value.name, from, to, Phase::forward, ValueRole::output);
    }
  }

  const Graph& source_;
  const std::vector<std::int64_t>& last_layers_;
  std::size_t num_meshes_;
  std::vector<Builder> builders_;  // by mesh
  Stages result_;
  std::vector<std::int64_t> layers_;                 // by node
  std::map<std::string, std::size_t> home_;          // of a parameter: its mesh
  std::map<std::string, std::size_t> cache_on_;      // the mesh that has each cache
  std::map<ValueId, std::size_t> made_by_;           // stages
  std::map<ValueId, std::set<std::size_t>> makers_;  // meshes
  std::set<ValueId> shared_;                         // results that are the same on all meshes
  std::map<std::string, std::size_t> round_;         // of results: in which they are exchanged
  std::set<std::pair<std::string, std::size_t>> received_;
  std::map<std::string, std::set<std::size_t>> producers_;  // of gradients: meshes
};

}  // namespace

std::vector<std::int64_t> layers_of_nodes(const Graph& graph) {
  std::vector<std::int64_t> layers(graph.nodes.size(), 0);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (graph.nodes[i].phase != Phase::forward) continue;
    layers[i] = last = graph.nodes[i].layer.value_or(last);
  }
  last = 0;  // the backward phase goes the other way
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (graph.nodes[i].phase != Phase::backward) continue;
    layers[i] = last = graph.nodes[i].layer.value_or(last);
  }
  return layers;
}

Stages split_stages(const Graph& graph, const std::vector<std::int64_t>& last_layers,
                    std::size_t meshes) {
  require(meshes > 0 && (last_layers.size() + 1) % meshes == 0, "meshes divide stages evenly");
  return Splitter(graph, last_layers, meshes).run();
}

}  // namespace fourfold::plan
