#include "compile/insert_conversions.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::compile {
namespace {

using graph::Node;
using graph::Phase;
using graph::ValueRole;
using op::Sharding;

Sharding without_partial(Sharding sharding) {
  sharding.partial.clear();
  return sharding;
}

std::string_view suffix(MoveKind kind) {
  if (const auto collective = kind.collective()) return facts_of(*collective).moved;
  switch (kind.own()) {
    case OwnMove::slice:
      return "sliced";
    case OwnMove::copy:
      return "copy";
    case OwnMove::pack:
      return "packed";
    case OwnMove::unpack:
      return "unpacked";
  }
  fail_internal("every kind of move has a word");
}

class Inserter {
 public:
  Inserter(const Recomputed& recomputed, const plan::GraphShardings& shardings,
           const plan::Plan& plan)
      : graph_(recomputed.graph), recomputed_(recomputed), plan_(plan), shardings_(shardings) {
    result_.kind = graph_.kind;
    result_.mesh = graph_.mesh;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const graph::Value& value = graph_.values[i];
      result_.values.push_back({value.name, value.shape, value.element, value.role,
                                without_partial(kept(ValueId(i))), std::nullopt, std::nullopt,
                                false, false, false, value.label});
    }
    classes_.resize(graph_.values.size());
    find_last_producers();
    find_partial();
  }

  ShardedGraph run() {
    for (node_ = 0; node_ < graph_.nodes.size(); ++node_) {
      stage_ = graph_.nodes[node_].stage;
      begin_phase(graph_.nodes[node_].phase);
      insert(graph_.nodes[node_]);
    }
    // Results that nobody here read.
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (graph_.values[i].role == ValueRole::result) {
        complete(ValueId(i));
        send(ValueId(i));
      }
    for (std::size_t edge = 0; edge < plan_.edges.size(); ++edge)
      if (arrives(plan_.edges[edge]) && handed_over_.insert(edge).second) receive(edge);
    return std::move(result_);
  }

 private:
  /// A sum's part that is partial on one set of axes.
  struct SumClass {
    Sharding sharding;
    ValueId sum;  // holds it
  };

  /// The cuts of each dim; and the axes of which what is kept as a partial sum stays one.
  using CutsKey = std::vector<std::vector<std::pair<std::size_t, std::int64_t>>>;
  using ShardingKey = std::pair<CutsKey, std::vector<AxisId>>;
  /// From what, to which sharding, within which stretch of the graph.
  struct Scope {
    Phase phase = Phase::forward;
    std::size_t stage = 0;
    std::int64_t segment = -1;
    auto operator<=>(const Scope&) const = default;
  };
  using ConversionKey = std::tuple<ValueId, ShardingKey, Scope>;

  const Sharding& kept(ValueId id) const {
    return shardings_.values[recomputed_.origin[id.index()].index()];
  }
  const plan::NodeShardings& shardings_of_node() const {
    return shardings_.nodes[recomputed_.node_origin[node_]];
  }

  /// Finds activations that are kept as partial sums and read in more than one state.
  void find_partial() {
    std::vector<std::optional<Sharding>> first(graph_.values.size());
    stays_partial_.assign(graph_.values.size(), false);
    const auto look = [&](ValueId id, const Sharding& wanted) {
      if (graph_.value(id).role != ValueRole::activation || kept(id).partial.empty()) return;
      if (first[id.index()] && *first[id.index()] != wanted) stays_partial_[id.index()] = true;
      first[id.index()] = wanted;
    };
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      for (std::size_t i = 0; i < graph_.nodes[n].reads.size(); ++i)
        look(graph_.nodes[n].reads[i], shardings_.nodes[recomputed_.node_origin[n]].reads[i]);
    for (const plan::Edge& edge : plan_.edges)
      if (leaves(edge)) look(*graph_.find(edge.value), edge.sent);
  }

  void find_last_producers() {
    last_producer_.assign(graph_.values.size(), 0);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueId id : graph_.nodes[i].outputs) last_producer_[id.index()] = i;
      num_layers_ = std::max(num_layers_, graph_.nodes[i].layer.value_or(-1) + 1);
    }
  }

  void insert(const Node& original) {
    Node node = original;
    const plan::NodeShardings& shardings = shardings_of_node();
    for (std::size_t i = 0; i < node.reads.size(); ++i)
      node.reads[i] = read(node.reads[i], shardings.reads[i], rounds(original, i));
    adds_in_place_ = true;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (graph_.value(node.outputs[i]).role == ValueRole::gradient)
        adds_in_place_ = adds_in_place_ && shardings.outputs[i] == kept(node.outputs[i]);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      node.outputs[i] = output(original.outputs[i], shardings.outputs[i]);
    result_.steps.emplace_back(node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      finish_output(original.outputs[i], node.outputs[i], shardings.outputs[i]);
  }

  // --- reads

  /// True if a node computes with a rounded copy of what it reads: weights are kept in the type of
  /// sums.
  bool rounds(const Node& node, std::size_t index) const {
    return !op::takes_any_element(node.op) &&
           op::element_dtype(op::operands(node.op)[index].element, plan_.compute) !=
               op::element_dtype(graph_.value(node.reads[index]).element, plan_.compute);
  }

  ValueId read(ValueId id, const Sharding& wanted, bool is_rounded) {
    const graph::Value& value = graph_.value(id);
    if (value.role == ValueRole::received) receive(id);
    if (graph::is_sum(value.role)) complete(id);
    if (value.role == ValueRole::result) send(id);
    if (value.role == ValueRole::step || value.role == ValueRole::result) return id;
    return converted(id, wanted, is_rounded);
  }

  /// The value in the wanted sharding, made here if no earlier step made it for this scope.
  /// Gradients are reduced where they lie. What is rounded is so before it moves: half the bytes to
  /// send.
  ValueId converted(ValueId id, const Sharding& wanted, bool is_rounded) {
    const ValueId from = is_rounded ? cast(id) : id;
    if (kept(id) == wanted) return from;
    const ConversionKey key(from, sharding_key(wanted), scope(id));
    if (const auto place = converted_.find(key); place != converted_.end()) return place->second;
    const std::size_t made = result_.values.size();
    const ValueId to = moves_rounded(id, kept(id), wanted)
                           ? widened(id, moved_rounded(id, wanted), wanted)
                           : convert(source_of(from, id, wanted), kept(id), wanted, purpose_of(id),
                                     std::nullopt, std::nullopt);
    if (is_converted_once(id))
      for (std::size_t i = made; i < result_.values.size(); ++i)
        result_.values[i].is_converted_once = true;
    converted_.emplace(key, to);
    return to;
  }

  /// The value that a conversion begins with. An all-reduce works in place: where others read the
  /// terms, it begins with a copy of them.
  ValueId source_of(ValueId from, ValueId id, const Sharding& wanted) {
    if (!stays_partial_[id.index()]) return from;
    const std::vector<Conversion> path = conversion_path(kept(id), wanted);
    if (!path.front().kind.is_in_place()) return from;
    const Conversion copy = copy_in(kept(id));
    Move move{copy, from, add_value(from, copy), std::nullopt, phase_, purpose_of(id), stage_};
    result_.steps.emplace_back(move);
    return move.to;
  }

  /// The copy of a weight in the type of the computation, one for all micro-batches and phases.
  ValueId cast(ValueId id) {
    if (const auto place = cast_.find(id); place != cast_.end()) return place->second;
    const ValueId to = rounded(id);
    result_.values[to.index()].is_rounded_weight = true;
    cast_.emplace(id, to);
    return to;
  }

  /// A copy in the type of the computation.
  ValueId rounded(ValueId id) {
    ShardedValue copy = result_.values[id.index()];
    copy.name = fresh_name(copy.name + "/cast");
    copy.role = ValueRole::activation;
    copy.element = op::Element::compute;
    copy.is_micro_sum = false;
    const ValueId to = add(std::move(copy));
    add_node(op::rounding(), {id}, to);
    return to;
  }

  // --- gradients that are rounded before they move

  /// True for a parameter, and for one of another mesh.
  static bool is_weight(const graph::Value& value) {
    return graph::is_weight(value) || (value.role == ValueRole::received && value.init.has_value());
  }

  /// True if collectives carry the gradient of a weight on this way, and carry it rounded.
  bool moves_rounded(ValueId id, const Sharding& from, const Sharding& to) const {
    const graph::Value& value = graph_.value(id);
    if (!plan_.rounds_gradients || value.role != ValueRole::gradient) return false;
    if (!is_weight(graph_.value(value.gradient_of.value()))) return false;
    return std::ranges::any_of(conversion_path(from, to), [](const Conversion& conversion) {
      return conversion.kind != OwnMove::slice;
    });
  }

  /// A copy of a gradient, or of its part of this micro-batch, in the type of the computation.
  ValueId rounded_gradient(ValueId id) {
    result_.rounds_gradients = true;
    return rounded(id);
  }

  ValueId moved_rounded(ValueId id, const Sharding& wanted) {
    return convert(rounded_gradient(id), kept(id), wanted, Purpose::gradients, std::nullopt,
                   std::nullopt);
  }

  /// Rounds and moves all gradients that updates read before the first of them is widened: one
  /// collective follows another, and those of small tensors may join.
  void move_gradients() {
    struct Moved {
      ValueId gradient, moved;
      const Sharding& wanted;
    };
    std::vector<Moved> list;
    std::set<ConversionKey> seen;
    for (std::size_t n = node_; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const plan::NodeShardings& shardings = shardings_.nodes[recomputed_.node_origin[n]];
      for (std::size_t i = 0; i < node.reads.size(); ++i) {
        const ValueId id = node.reads[i];
        const Sharding& wanted = shardings.reads[i];
        if (moves_rounded(id, kept(id), wanted) &&
            seen.emplace(id, sharding_key(wanted), scope(id)).second)
          list.push_back({id, moved_rounded(id, wanted), wanted});
      }
    }
    for (const auto& [id, moved, wanted] : list)
      converted_.emplace(ConversionKey(id, sharding_key(wanted), scope(id)),
                         widened(id, moved, wanted));
  }

  /// The gradient that has moved in its own type again: in its own place where it is cut as before.
  ValueId widened(ValueId id, ValueId moved, const Sharding& wanted) {
    ValueId to = id;
    if (wanted.dims != kept(id).dims) {
      ShardedValue wide = result_.values[id.index()];
      wide.name = fresh_name(wide.name + "/reduced");
      wide.role = ValueRole::activation;
      wide.sharding = without_partial(wanted);
      to = add(std::move(wide));
    }
    add_node(op::widening(), {moved}, to);
    return to;
  }

  void add_node(const op::Op& op, std::vector<ValueId> reads, ValueId output) {
    result_.steps.emplace_back(
        Node{op, std::move(reads), {output}, phase_, std::nullopt, {}, stage_});
  }

  /// Conversions of a parameter live as long as they are needed where they are cached, else within
  /// one segment of one phase: every gathered weight would outlive the forward pass.
  Scope scope(ValueId id) const {
    const Node& node = graph_.nodes[node_];
    if (!graph::is_weight(graph_.value(id)) || is_cached(node)) return {};
    return {node.phase, node.stage, node.layer ? checkpointing().segment_of(*node.layer) : -1};
  }

  /// True if one conversion serves all micro-batches: in a pipeline several of them are between
  /// their forward and their backward pass at once, and each would have a copy of a cached weight.
  bool is_converted_once(ValueId id) const {
    return plan_.meshes.size() > 1 && graph_.kind == op::ProgramKind::train &&
           graph_.value(id).role == ValueRole::parameter && is_cached(graph_.nodes[node_]);
  }

  /// True if what a node gathers stays for the backward pass.
  bool is_cached(const Node& node) const {
    if (plan_.cached_gathers)
      return *plan_.cached_gathers > 0 &&
             (!node.layer || *node.layer >= num_layers_ - *plan_.cached_gathers);
    return node.layer ? !checkpointing().repeats(*node.layer) : !checkpointing().repeats_any();
  }
  const plan::Checkpointing& checkpointing() const { return plan_.checkpointing_on(graph_.mesh); }

  static ShardingKey sharding_key(const Sharding& sharding) {
    ShardingKey key;
    for (const auto& cuts : sharding.dims) {
      auto& dim = key.first.emplace_back();
      for (const op::Cut& cut : cuts) dim.emplace_back(cut.axis.index(), cut.stride.value_or(-1));
    }
    for (const op::Partial& partial : sharding.partial) key.second.push_back(partial.axis);
    return key;
  }

  // --- conversions

  Purpose purpose_of(ValueId id) const {
    const ValueRole role = graph_.value(id).role;
    if (graph::is_persistent(role)) return Purpose::weights;
    return graph::is_sum(role) ? Purpose::gradients : Purpose::activations;
  }

  /// Appends the moves from one sharding to another; they end in `target` where one is given, or
  /// are added to `sum`. Returns the value that holds the result.
  ValueId convert(ValueId id, const Sharding& from, const Sharding& to, Purpose purpose,
                  std::optional<ValueId> target, std::optional<ValueId> sum) {
    std::vector<Conversion> path = conversion_path(from, to);
    // A collective in place leaves its result there, and a copy adds the result to the sum.
    if (sum && (path.empty() || path.back().kind.is_in_place())) path.push_back(copy_in(to));
    std::size_t last_move = path.size();  // what follows it works in place
    for (std::size_t i = 0; i < path.size(); ++i)
      if (!path[i].kind.is_in_place()) last_move = i;
    ValueId now = id;
    for (std::size_t i = 0; i < path.size(); ++i) {
      Move move{path[i], now, now, std::nullopt, phase_, purpose, stage_};
      if (!path[i].kind.is_in_place()) {
        if (i == last_move && target)
          move.to = *target;
        else if (path[i].kind != OwnMove::copy)
          move.to = add_value(now, path[i]);
        if (i == last_move) move.sum = sum;
      }
      now = move.to;
      result_.steps.emplace_back(std::move(move));
    }
    return now;
  }

  ValueId add_value(ValueId source, const Conversion& conversion) {
    ShardedValue value = result_.values[source.index()];
    value.name += format("/{}", suffix(conversion.kind));
    if (!conversion.axes.empty()) value.name += format(".{}", axis_name(conversion.axes.front()));
    value.name = fresh_name(value.name);
    value.role = ValueRole::activation;
    value.sharding = without_partial(conversion.after);
    value.is_micro_sum = value.is_rounded_weight = value.is_converted_once = false;
    return add(std::move(value));
  }

  ValueId add(ShardedValue value) {
    result_.values.push_back(std::move(value));
    return ValueId(result_.values.size() - 1);
  }

  std::string fresh_name(const std::string& base) {
    const int count = ++names_[base];
    return count == 1 ? base : format("{}{}", base, count);
  }

  const std::string& axis_name(AxisId axis) const {
    return plan_.meshes[graph_.mesh.index()].axes[axis.index()].name;
  }

  // --- outputs

  /// Where an op writes what it gives in sharding `given`.
  ValueId output(ValueId id, const Sharding& given) {
    const graph::Value& value = graph_.value(id);
    if (graph::is_sum(value.role)) return sum_output(id, given);
    if (graph::is_persistent(value.role))
      return given.dims == kept(id).dims ? id : window_of(id, given);
    if (given.dims == kept(id).dims) return id;  // at most reduced in place
    ShardedValue raw = result_.values[id.index()];
    raw.name = fresh_name(value.name + "/raw");
    raw.role = ValueRole::activation;
    raw.sharding = without_partial(given);
    return add(std::move(raw));
  }

  ValueId window_of(ValueId id, const Sharding& given) {
    ShardedValue window = result_.values[id.index()];
    window.name = fresh_name(window.name + "/part");
    window.sharding = without_partial(given);
    window.window_of = id;
    return add(std::move(window));
  }

  void finish_output(ValueId id, ValueId written, const Sharding& given) {
    const graph::Value& value = graph_.value(id);
    if (value.role == ValueRole::gradient) {
      add_to_sum(id);
      return;
    }
    if (value.role == ValueRole::result) return;
    if (written != id || given != kept(id))
      convert(written, given, kept(id), purpose_of(id), id, std::nullopt);
    send(id);
  }

  // --- other meshes

  bool leaves(const plan::Edge& edge) const {
    return edge.graph == graph_.kind && edge.from == graph_.mesh;
  }
  bool arrives(const plan::Edge& edge) const {
    return edge.graph == graph_.kind && edge.to == graph_.mesh;
  }

  /// What the host provides or an earlier phase made leaves at the start of a phase.
  void begin_phase(Phase phase) {
    if (node_ > 0 && phase_ == phase) return;
    phase_ = phase;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const graph::Value& value = graph_.values[i];
      if (graph::is_weight(value) || value.role == ValueRole::gradient) send(ValueId(i));
    }
    if (phase == Phase::update) move_gradients();
  }

  /// Sends a value of this phase wherever it is wanted, as it lies here.
  void send(ValueId id) {
    for (std::size_t e = 0; e < plan_.edges.size(); ++e) {
      const plan::Edge& edge = plan_.edges[e];
      if (!leaves(edge) || edge.phase != phase_ || edge.value != graph_.value(id).name) continue;
      if (!handed_over_.insert(e).second) continue;
      const ValueId ready =
          graph_.value(id).role == ValueRole::result ? id : converted(id, edge.sent, false);
      result_.steps.emplace_back(Handover{e, true, ready, phase_, stage_});
    }
  }

  /// Receives a value before its first reader, after what the same mesh sends before it.
  void receive(ValueId id) {
    const auto wanted = std::ranges::find_if(plan_.edges, [&](const plan::Edge& edge) {
      return arrives(edge) && edge.into == graph_.value(id).name;
    });
    require(wanted != plan_.edges.end(), "what is received is one of the plan's edges");
    for (auto edge = plan_.edges.begin(); edge <= wanted; ++edge) {
      const auto index = static_cast<std::size_t>(edge - plan_.edges.begin());
      const bool is_before = arrives(*edge) && edge->from == wanted->from;
      if (is_before && handed_over_.insert(index).second) receive(index);
    }
  }

  /// Receives what comes along an edge, as it is kept here.
  void receive(std::size_t index) {
    const plan::Edge& edge = plan_.edges[index];
    result_.steps.emplace_back(
        Handover{index, false, *graph_.find(edge.into), edge.phase, edge.to_stage});
  }

  // --- sums

  ValueId sum_output(ValueId id, const Sharding& given) {
    for (const SumClass& term : classes_[id.index()])
      if (term.sharding == given) return term.sum;
    const graph::Value& value = graph_.value(id);
    const bool is_direct =
        value.role == ValueRole::result ? classes_[id.index()].empty() : adds_in_place_;
    SumClass term{given, id};
    if (!is_direct) {
      ShardedValue sum = result_.values[id.index()];
      sum.name = fresh_name(value.name + "/part");
      sum.sharding = without_partial(given);
      // A part of a result lasts as long as the result; what is added to a gradient, one
      // micro-batch.
      sum.is_micro_sum = value.role == ValueRole::gradient;
      if (sum.is_micro_sum) sum.role = ValueRole::activation;
      term.sum = add(std::move(sum));
    }
    classes_[id.index()].push_back(term);
    return term.sum;
  }

  /// After the last producer of a micro-batch, what it holds goes to the gradient's sum.
  void add_to_sum(ValueId id) {
    if (last_producer_[id.index()] != node_) return;
    for (const SumClass& term : classes_[id.index()]) {
      if (term.sum == id) continue;
      const bool rounds = moves_rounded(id, term.sharding, kept(id));
      convert(rounds ? rounded_gradient(term.sum) : term.sum, term.sharding, kept(id),
              purpose_of(id), std::nullopt, id);
    }
  }

  /// Reduces a result completely, once: all its parts, then their sum.
  void complete(ValueId id) {
    auto& classes = classes_[id.index()];
    if (graph_.value(id).role != ValueRole::result) return;
    for (const SumClass& term : classes) {
      convert(term.sum, term.sharding, kept(id), purpose_of(id), std::nullopt, std::nullopt);
      if (term.sum == id) continue;
      add_node(op::sum_of_two(), {id, term.sum}, id);
    }
    classes.clear();
  }

  const graph::Graph& graph_;
  const Recomputed& recomputed_;
  const plan::Plan& plan_;
  const plan::GraphShardings& shardings_;
  ShardedGraph result_;
  std::size_t node_ = 0;
  /// A row adds to all of its gradients where they lie, or to none: it begins or goes on.
  bool adds_in_place_ = true;
  std::int64_t num_layers_ = 0;
  Phase phase_ = Phase::forward;
  std::size_t stage_ = 0;
  std::vector<std::size_t> last_producer_;      // by value
  std::vector<bool> stays_partial_;             // by value
  std::vector<std::vector<SumClass>> classes_;  // by value
  std::map<ConversionKey, ValueId> converted_;
  std::map<ValueId, ValueId> cast_;
  std::map<std::string, int> names_;
  std::set<std::size_t> handed_over_;  // edges that have a step
};

}  // namespace

ShardedGraph insert_conversions(const Recomputed& recomputed, const plan::GraphShardings& shardings,
                                const plan::Plan& plan) {
  return Inserter(recomputed, shardings, plan).run();
}

}  // namespace fourfold::compile
