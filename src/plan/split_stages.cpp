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
  Splitter(const Graph& source, const std::vector<std::int64_t>& last_layers)
      : source_(source), last_layers_(last_layers), layers_(layers_of_nodes(source)) {
    for (std::size_t stage = 0; stage <= last_layers.size(); ++stage)
      builders_.emplace_back(source.name);
    find_homes();
  }

  Stages run() {
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::update})
      for (std::size_t i = 0; i < source_.nodes.size(); ++i)
        if (source_.nodes[i].phase == phase) place(source_.nodes[i], stage_of_layer(layers_[i]));
    share_results();
    share_outputs();
    for (std::size_t stage = 0; stage <= last_stage(); ++stage) {
      result_.graphs.push_back(builders_[stage].take());
      result_.graphs.back().mesh = MeshId(stage);
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

  std::size_t last_stage() const { return last_layers_.size(); }

  std::size_t stage_of_layer(std::int64_t layer) const {
    std::size_t stage = 0;
    while (stage < last_stage() && layer > last_layers_[stage]) ++stage;
    return stage;
  }

  /// The stage that owns each parameter: that of its first reader.
  void find_homes() {
    for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
      const Node& node = source_.nodes[i];
      if (node.phase != Phase::forward) continue;
      const std::size_t stage = stage_of_layer(layers_[i]);
      for (const ValueId id : node.reads)
        if (source_.value(id).role == ValueRole::parameter)
          home_.emplace(source_.value(id).name, stage);
    }
  }

  void place(const Node& node, std::size_t stage_of_node) {
    if (node.phase != Phase::update) {
      add(node, adds_terms_of(node).value_or(stage_of_node));
      return;
    }
    const bool is_vote = std::holds_alternative<op::Vote>(node.op),
               counts_found = std::holds_alternative<op::CountNonFinite>(node.op),
               is_shared = is_vote || counts_found ||
                           std::holds_alternative<op::UpdateControl>(node.op) ||
                           std::holds_alternative<op::CountUpdate>(node.op);
    if (is_vote) exchange_sums(node.reads, 1);
    if (counts_found) exchange_sums(node.reads, 4);
    if (!is_shared) {
      add(node, stage_of_update(node));
      return;
    }
    for (std::size_t stage = 0; stage <= last_stage(); ++stage) add(node, stage);
    if (is_vote)
      exchange_sums(node.outputs, 3);
    else
      for (const ValueId id : node.outputs) shared_.insert(id);
  }

  /// The stage that makes both terms of a sum in the backward phase: the sum is made there, and
  /// sent once.
  std::optional<std::size_t> adds_terms_of(const Node& node) const {
    if (node.phase != Phase::backward || !std::holds_alternative<op::Add>(node.op))
      return std::nullopt;
    std::optional<std::size_t> maker;
    for (const ValueId id : node.reads) {
      const auto made = made_on_.find(id);
      if (source_.value(id).role != ValueRole::activation || made == made_on_.end())
        return std::nullopt;
      if (maker && *maker != made->second) return std::nullopt;
      maker = made->second;
    }
    return maker;
  }

  /// An update node belongs to the home of the parameter whose gradient or state it names.
  std::size_t stage_of_update(const Node& node) const {
    const std::string& name = source_.value(node.reads[0]).name;
    return home_.at(name.substr(name.find('/') + 1));
  }

  void add(const Node& node, std::size_t stage) {
    Builder& builder = builders_[stage];
    builder.set_phase(node.phase);
    builder.set_layer(node.layer);
    builder.set_label(node.label);
    std::vector<ValueId> reads, outputs;
    for (const ValueId id : node.reads) reads.push_back(read(id, stage, node.phase));
    for (const ValueId id : node.outputs) outputs.push_back(own(source_.value(id), stage));
    for (const ValueId id : node.outputs) {
      made_on_[id] = stage;
      makers_[id].insert(stage);
    }
    builder.apply_to(node.op, std::move(reads), std::move(outputs));
    for (const ValueId id : node.outputs) note_gradient(source_.value(id), stage);
  }

  /// The stage's own value of that name.
  ValueId own(const Value& value, std::size_t stage) {
    const ValueId id =
        builders_[stage].given(value.name, value.shape, value.element, value.role, value.init);
    builders_[stage].set_labels(id, value.label, value.gradient_label);
    if (value.gradient_of) {
      const Value& forward = source_.value(*value.gradient_of);
      if (const auto place = builders_[stage].find(forward.name))
        builders_[stage].set_gradient_of(id, *place);
    }
    return id;
  }

  ValueId read(ValueId id, std::size_t stage, Phase phase) {
    const Value& value = source_.value(id);
    if (value.role == ValueRole::gradient) return whole_gradient(value, stage);
    std::optional<std::size_t> maker;
    if (value.role == ValueRole::parameter) maker = home_.at(value.name);
    if (value.role == ValueRole::activation) maker = made_on_.at(id);
    if (!maker || *maker == stage) return own(value, stage);
    return receive(value, value.name, *maker, stage, phase);
  }

  ValueId receive(const Value& value, const std::string& into, std::size_t from, std::size_t to,
                  Phase phase, ValueRole role = ValueRole::received) {
    if (received_.emplace(into, to).second)
      result_.edges.push_back({source_.name, value.name, into, MeshId(from), MeshId(to), phase,
                               value.role == ValueRole::parameter, value.shape, value.element});
    const ValueId id = builders_[to].given(into, value.shape, value.element, role, value.init);
    builders_[to].set_labels(id, value.label, value.gradient_label);
    return id;
  }

  // --- what several stages add to

  void note_gradient(const Value& value, std::size_t stage) {
    if (value.role == ValueRole::gradient) producers_[value.name].insert(stage);
  }

  /// A gradient at its home, with what other stages add to it.
  ValueId whole_gradient(const Value& value, std::size_t stage) {
    Builder& builder = builders_[stage];
    require(producers_.at(value.name).contains(stage),
            "a stage that has a parameter adds to its gradient");
    ValueId sum = own(value, stage);
    const std::string total = value.name + "/total";
    if (const auto place = builder.find(total)) return *place;
    for (const std::size_t other : producers_.at(value.name)) {
      if (other == stage) continue;
      const ValueId term =
          receive(value, format("{}/from.{}", value.name, other), other, stage, Phase::update);
      builder.set_gradient_of(term, builder.graph().value(sum).gradient_of.value());
      sum = builder.apply_one(op::Add{}, {sum, term}, total);
      builder.set_labels(sum, value.label, value.label);
    }
    return sum;
  }

  /// The results among these become the sums over all stages: in this round those that several
  /// stages make, in the next one those of one stage. What is made of a sum goes in a later round.
  void exchange_sums(const std::vector<ValueId>& ids, std::size_t round) {
    const Phase phase = source_.nodes.back().phase;
    for (const ValueId id : ids) {
      const Value& field = source_.value(id);
      if (field.role != ValueRole::result || !shared_.insert(id).second) continue;
      const std::set<std::size_t>& makers = makers_.at(id);
      round_[field.name] = round + (makers.size() == 1 ? 1 : 0);
      for (std::size_t to = 0; to <= last_stage(); ++to) {
        if (makers.size() > 1)
          add_up(field, makers, to, phase);
        else if (const std::size_t from = *makers.begin(); from != to)
          receive(field, field.name, from, to, phase);  // it arrives in the field itself
      }
    }
  }

  /// The terms of all makers in the order of their stages, so that all stages have the same bits.
  void add_up(const Value& field, const std::set<std::size_t>& makers, std::size_t to,
              Phase phase) {
    Builder& builder = builders_[to];
    builder.set_phase(phase);
    builder.set_layer(std::nullopt);
    const ValueId sum = own(field, to);
    std::optional<ValueId> before;  // the sum of the stages before this one
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

  /// What is left, for the host of every rank: results that a part of the stages made and that no
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
      const std::size_t from = made_on_.at(ValueId(i));
      for (std::size_t to = 0; to <= last_stage(); ++to)
        if (to != from) receive(value, value.name, from, to, Phase::forward, ValueRole::output);
    }
  }

  const Graph& source_;
  const std::vector<std::int64_t>& last_layers_;
  std::vector<Builder> builders_;
  Stages result_;
  std::vector<std::int64_t> layers_;  // by node
  std::map<std::string, std::size_t> home_;
  std::map<ValueId, std::size_t> made_on_;
  std::map<ValueId, std::set<std::size_t>> makers_;  // stages
  std::set<ValueId> shared_;                         // results that are the same on all stages
  std::map<std::string, std::size_t> round_;         // of results: in which they are exchanged
  std::set<std::pair<std::string, std::size_t>> received_;
  std::map<std::string, std::set<std::size_t>> producers_;  // of gradients: stages
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

Stages split_stages(const Graph& graph, const std::vector<std::int64_t>& last_layers) {
  return Splitter(graph, last_layers).run();
}

}  // namespace fourfold::plan
