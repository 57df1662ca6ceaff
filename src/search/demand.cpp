#include "search/demand.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "compile/choose_blocks.h"
#include "compile/insert_conversions.h"
#include "compile/passes.h"
#include "compile/persistent_region.h"
#include "compile/recompute.h"
#include "compile/use_cut_forms.h"

namespace fourfold::search {
namespace {

using compile::Handover;
using compile::Move;
using compile::ShardedGraph;
using compile::ShardedValue;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueRole;

constexpr std::size_t tensors_named = 5;

/// Waits for nothing: an index beyond all steps.
constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

/// How much a value needs, and from which step to which.
struct Life {
  double bytes = 0;
  std::optional<std::size_t> first;
  std::size_t last = 0;
};

/// A collective of the list.
struct Exchange {
  std::size_t step = 0;
  const Move* move = nullptr;
};

class Counter {
 public:
  Counter(const ShardedGraph& graph, const plan::Plan& plan)
      : graph_(graph), plan_(plan), mesh_(plan.meshes[graph.mesh.index()]) {}

  Demand run() {
    demand_.micros = static_cast<double>(plan_.batching.accumulation);
    end_of_phase_.resize(graph_.steps.size());
    for (std::size_t i = end_of_phase_.size(); i-- > 0;) {
      const bool is_last = i + 1 == end_of_phase_.size() ||
                           phase_of(graph_.steps[i + 1]) != phase_of(graph_.steps[i]);
      end_of_phase_[i] = is_last ? i : end_of_phase_[i + 1];
    }
    lives_.resize(graph_.values.size());
    is_once_a_step_.resize(graph_.values.size());
    is_kept_.resize(graph_.values.size());
    for (std::size_t i = 0; i < lives_.size(); ++i) lives_[i].bytes = space(ValueId(i));
    for (step_ = 0; step_ < graph_.steps.size(); ++step_) {
      if (const auto* node = std::get_if<Node>(&graph_.steps[step_])) count(*node);
      if (const auto* move = std::get_if<Move>(&graph_.steps[step_])) count(*move);
      if (const auto* handover = std::get_if<Handover>(&graph_.steps[step_])) count(*handover);
    }
    count_persistent();
    count_alive();
    return std::move(demand_);
  }

 private:
  Shape local(ValueId id) const {
    return op::local_shape(graph_.value(id).shape, graph_.value(id).sharding, mesh_);
  }
  double element_bytes(ValueId id) const {
    return static_cast<double>(
        size_bytes(op::element_dtype(graph_.value(id).element, plan_.compute)));
  }
  double bytes(ValueId id) const {
    return static_cast<double>(local(id).elements()) * element_bytes(id);
  }
  /// What it takes of memory, where buffers begin at multiples.
  double space(ValueId id) const {
    return static_cast<double>(compile::align_up(static_cast<std::int64_t>(bytes(id))));
  }
  /// How often a step of the list is done in a training step: but for the update, in each
  /// micro-batch, and there in each chunk what is no move of weights or of their gradients.
  double times(Phase phase, compile::Purpose purpose = compile::Purpose::activations) const {
    if (phase == Phase::update) return 1;
    const bool is_of_chunk = purpose == compile::Purpose::activations;
    return static_cast<double>(plan_.batching.accumulation *
                               (is_of_chunk ? plan_.batching.chunks : 1));
  }
  void use(ValueId id) {
    Life& life = lives_[id.index()];
    if (!life.first) life.first = step_;
    life.last = step_;
  }

  // --- work and traffic

  /// What is sent once in a step is there once, however many micro-batches are under way.
  void count(const Handover& handover) {
    use(handover.value);
    const plan::Edge& edge = plan_.edges[handover.edge];
    if (edge.goes_once_a_step)
      is_once_a_step_[handover.value.index()] = true;
    else if (edge.phase != Phase::update)
      passing_.push_back({step_, &handover});
  }

  void count(const Node& node) {
    std::vector<Shape> shapes;
    bool is_once = false;
    for (const auto* list : {&node.reads, &node.outputs})
      for (const ValueId id : *list) {
        use(id);
        shapes.push_back(local(id));
        is_once = is_once || (list == &node.outputs && graph_.value(id).is_rounded_weight);
      }
    const double calls = is_once ? 1 : times(node.phase);
    demand_.instructions += calls;
    if (node.phase == Phase::update) {
      demand_.update_instructions += calls;
      demand_.update_bytes += calls * op::traffic_bytes(node.op, shapes, plan_.compute);
    }
    if (op::is_counted_in_flops(op::work_class(node.op)))
      demand_.products[op::flops(node.op, shapes)] += calls;
    else
      demand_.other_bytes += calls * op::traffic_bytes(node.op, shapes, plan_.compute);
  }

  void count(const Move& move) {
    use(move.from);
    use(move.to);
    if (move.sum) use(*move.sum);
    const bool is_once = graph_.value(move.to).is_converted_once;
    if (is_once) is_once_a_step_[move.to.index()] = true;
    const double calls = is_once ? 1 : times(move.phase, move.purpose);
    const std::optional<Collective> kind = move.conversion.kind.collective();
    if (!kind) {
      demand_.other_bytes += calls * 2 * bytes(move.to);
      return;
    }
    const auto [is_packed, is_unpacked] =
        compile::blocks_of(move.conversion, local(move.from), local(move.to), mesh_);
    demand_.other_bytes +=
        calls * 2 * ((is_packed ? bytes(move.from) : 0) + (is_unpacked ? bytes(move.to) : 0));
    demand_.instructions += calls * ((is_packed ? 1 : 0) + (is_unpacked ? 1 : 0));
    const Sent once = sent_of(move.conversion, mesh_, bytes(move.from), bytes(move.to));
    exchanges_[{move.purpose, move.conversion.axes}].push_back({step_, &move});
    Sent& sent =
        demand_.sent[{move.purpose, *kind, move.conversion.axes, graph_.value(move.from).label,
                      move.phase == Phase::update, is_hideable(move)}];
    sent.calls += calls;
    sent.payload_bytes += calls * once.payload_bytes;
    sent.sent_bytes += calls * once.sent_bytes;
    sent.element_bytes = element_bytes(move.from);
    demand_.instructions += calls;
  }

  // --- memory

  void count_persistent() {
    for (const ShardedValue& value : graph_.values) {
      const double size = space(ValueId(static_cast<std::size_t>(&value - graph_.values.data())));
      if (value.role == ValueRole::parameter) demand_.memory.parameters += size;
      if (value.role == ValueRole::moment || value.role == ValueRole::average)
        demand_.memory.optimizer += size;
      if (value.is_rounded_weight) demand_.memory.rounded += size;
    }
  }

  /// True if the value takes memory of its own only while it is used.
  bool is_transient(const ShardedValue& value) const {
    return !graph::is_persistent(value.role) && value.role != ValueRole::step &&
           value.role != ValueRole::result && !value.is_rounded_weight && !value.window_of;
  }

  /// The class of a transient value: gradients of weights, weights in use, or activations.
  double& class_of(MemoryNeed& memory, const ShardedValue& value) const {
    if (value.role == ValueRole::gradient || value.name.starts_with("gradient/"))
      return memory.gradients;
    const bool is_weight =
        std::ranges::binary_search(weights_, value.name.substr(0, value.name.find('/')));
    return is_weight ? memory.weights : memory.activations;
  }

  struct Fullest {
    std::size_t step = 0;
    double bytes = 0;
  };
  /// Where most is alive of what is transient; `beside_kept`: of what is not kept for the backward
  /// pass alone.
  enum class Of : std::uint8_t { all, beside_kept };
  Fullest fullest_of(const std::vector<Life>& lives, Of of) const {
    const std::size_t steps = graph_.steps.size();
    std::vector<double> change(steps + 1, 0);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      if (!lives[i].first || !is_transient(graph_.values[i])) continue;
      if (of == Of::beside_kept && is_kept_[i]) continue;
      change[*lives[i].first] += lives[i].bytes;
      change[lives[i].last + 1] -= lives[i].bytes;
    }
    Fullest fullest;
    double alive = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      alive += change[step];
      if (alive > fullest.bytes) fullest = {step, alive};
    }
    return fullest;
  }

  void count_alive() {
    const bool are_several = plan_.batching.accumulation > 1;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const ShardedValue& value = graph_.values[i];
      if (value.role == ValueRole::parameter) weights_.push_back(value.name);
      if (!lives_[i].first || !are_several) continue;
      // Sums over micro-batches are there from the end of the first one on.
      if (value.role == ValueRole::gradient) lives_[i].first = 0;
      // What another mesh sends once, or a weight is converted to once, is there until the last
      // micro-batch has read it.
      if (is_once_a_step_[i] && (value.role == ValueRole::received || value.is_converted_once))
        lives_[i] = {lives_[i].bytes, 0, std::max(lives_[i].last, last_of_micros())};
    }
    std::ranges::sort(weights_);
    count_kept();
    if (are_several) count_passing();
    const auto [fullest, most] = fullest_of(lives_, Of::all);
    const double beside = fullest_of(lives_, Of::beside_kept).bytes;
    const std::vector<Life> with_room = lives_with_room();
    demand_.room_bytes = std::max(fullest_of(with_room, Of::all).bytes - most, 0.0);
    demand_.in_flight.apart = beside + demand_.in_flight.kept - most;
    demand_.in_flight.apart_room =
        std::max(fullest_of(with_room, Of::beside_kept).bytes - beside, 0.0);
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const ShardedValue& value = graph_.values[i];
      const bool is_alive =
          lives_[i].first && *lives_[i].first <= fullest && lives_[i].last >= fullest;
      const bool is_kept = graph::is_persistent(value.role);
      if (!is_kept && !(is_alive && is_transient(value))) continue;
      if (!is_kept) class_of(demand_.memory, value) += lives_[i].bytes;
      demand_.largest.push_back({value.name, bytes(ValueId(i))});
    }
    std::ranges::stable_sort(demand_.largest, std::ranges::greater(), &LargeTensor::bytes);
    demand_.largest.resize(std::min(demand_.largest.size(), tensors_named));
  }

  /// The last step of a micro-batch.
  std::size_t last_of_micros() const {
    const auto update = std::ranges::find_if(
        graph_.steps, [](const compile::Step& step) { return phase_of(step) == Phase::update; });
    return static_cast<std::size_t>(update - graph_.steps.begin()) - 1;
  }

  /// As compile's passes receipts and place_buffers: what is read of another mesh is received one
  /// task of its kind ahead, where that may run beside computation; what is sent stays for a
  /// forward and a backward task, if it is not kept for longer anyway.
  void count_passing() {
    for (const auto& [step, handover] : passing_) {
      const Life& life = lives_[handover->value.index()];
      const bool adds =
          handover->sends ? life.last <= end_of_phase_[step] : plan_.overlap.send_recv;
      if (adds) demand_.in_flight.passing += life.bytes;
    }
  }

  /// What a micro-batch has from its forward to its backward pass.
  void count_kept() {
    const auto is_forward = [](const compile::Step& step) {
      return phase_of(step) == Phase::forward;
    };
    const auto backward = static_cast<std::size_t>(
        std::ranges::find_if_not(graph_.steps, is_forward) - graph_.steps.begin());
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const ShardedValue& value = graph_.values[i];
      is_kept_[i] = lives_[i].first && *lives_[i].first < backward && lives_[i].last >= backward &&
                    is_transient(value) && value.role != ValueRole::gradient && !is_once_a_step_[i];
      if (is_kept_[i]) demand_.in_flight.kept += lives_[i].bytes;
    }
  }

  // --- memory with room beside computation

  static Phase phase_of(const compile::Step& step) {
    return std::visit([](const auto& one) { return one.phase; }, step);
  }

  /// By step: the first step of computation that reads the value, if any later does.
  std::vector<std::size_t> first_reads() const {
    std::vector<std::size_t> reads(graph_.values.size(), never);
    for (std::size_t i = graph_.steps.size(); i-- > 0;)
      if (const auto* node = std::get_if<Node>(&graph_.steps[i]))
        for (const ValueId id : node->reads) reads[id.index()] = i;
    return reads;
  }

  /// As compile's passes gather_ahead and place_buffers with their usual room: a gather begins
  /// where what the gather before it on its stream brought is read first, and what a stream of
  /// collectives used last stays until computation has waited for that stream.
  std::vector<Life> lives_with_room() const {
    const compile::Room room = compile::room_of(plan_.overlap, compile::some_instructions);
    const std::vector<std::size_t> reads = first_reads();
    std::vector<Life> lives = lives_;
    for (const auto& [stream, list] : exchanges_) {
      if (room.gathers_ahead && stream.first == compile::Purpose::weights)
        gather_ahead(list, reads, lives);
      std::size_t awaited = never;
      for (std::size_t i = list.size(); i-- > 0;) {
        const auto& [step, move] = list[i];
        if (const std::size_t read = reads[move->to.index()]; read > step)
          awaited = std::min(awaited, read);
        const std::size_t until =
            std::min({step + room.reach.instructions, awaited, end_of_phase_[step]});
        for (const ValueId id : {move->from, move->to})
          if (Life& life = lives[id.index()]; life.first && life.last == step)
            life.last = std::max(until, step);
      }
    }
    return lives;
  }

  /// True for a gather: a dim loses a cut, and none gains it.
  static bool brings_whole(const Move& move) {
    const std::optional<Collective> kind = move.conversion.kind.collective();
    return kind && facts_of(*kind).gathers() && !facts_of(*kind).scatters();
  }

  static void gather_ahead(const std::vector<Exchange>& list, const std::vector<std::size_t>& reads,
                           std::vector<Life>& lives) {
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (!brings_whole(*list[i].move)) continue;
      Life& life = lives[list[i].move->to.index()];
      const std::size_t read = reads[list[i - 1].move->to.index()];
      if (life.first && read < *life.first) life.first = read;
    }
  }

  /// Sums of activations in the backward pass run beside products that make gradients of weights,
  /// but for those of what is computed again.
  bool is_hideable(const Move& move) const {
    const plan::Overlap& overlap = plan_.overlap;
    // What an update has changed is gathered when nothing is left to compute.
    if (brings_whole(move) && move.purpose == compile::Purpose::weights)
      return overlap.all_gather && move.phase != Phase::update;
    if (move.purpose == compile::Purpose::gradients) return overlap.reduce_scatter;
    const bool is_again = graph_.value(move.from).name.find("/again") != std::string::npos;
    return overlap.all_reduce && move.phase == Phase::backward && !is_again;
  }

  const ShardedGraph& graph_;
  const plan::Plan& plan_;
  const Mesh& mesh_;
  std::size_t step_ = 0;
  std::vector<std::size_t> end_of_phase_;  // by step: the last one of its phase
  /// By stream, in the order of the list.
  std::map<std::pair<compile::Purpose, std::vector<AxisId>>, std::vector<Exchange>> exchanges_;
  std::vector<Life> lives_;           // by value
  std::vector<bool> is_once_a_step_;  // by value: it comes or is made once in a step
  std::vector<bool> is_kept_;         // by value: from the forward pass for the backward one
  /// What passes to and from other meshes in each micro-batch, and in which step.
  std::vector<std::pair<std::size_t, const Handover*>> passing_;
  std::vector<std::string> weights_;
  Demand demand_;
};

}  // namespace

Sent sent_of(const compile::Conversion& conversion, const Mesh& mesh, double from_bytes,
             double to_bytes) {
  double ranks = 1;
  for (const AxisId axis : conversion.axes)
    ranks *= static_cast<double>(mesh.axes[axis.index()].size);
  double payload = std::max(from_bytes, to_bytes);
  const CollectiveFacts& facts = facts_of(conversion.kind.collective().value());
  if (facts.gathers() && !facts.scatters()) payload = ranks * from_bytes;
  if (facts.scatters() && !facts.gathers()) payload = ranks * to_bytes;
  return {1, payload, facts.sent_share(ranks) * payload};
}

Demand demand_of(const graph::Graph& train, const plan::Plan& plan) {
  const compile::CutGraph cut = compile::use_cut_forms(train, plan);
  const compile::Recomputed recomputed = compile::recompute(cut.graph, plan.checkpointing);
  return Counter(compile::insert_conversions(recomputed, cut.shardings, plan), plan).run();
}

Demand with_in_flight(Demand demand, std::int64_t in_flight, std::int64_t micros) {
  const InFlight& each = demand.in_flight;
  const auto others = static_cast<double>(in_flight - 1);
  double more = each.passing;
  if (in_flight > 1 && in_flight < micros) {
    more += others * each.kept + each.apart;
    demand.room_bytes = each.apart_room;
  } else if (in_flight > 1) {
    // No memory is used for two of them. Gradients are all there when the first one has ended.
    more += others * each.kept - std::min(each.kept, demand.memory.gradients);
  }
  demand.memory.activations += more;
  return demand;
}

Demand with_difference(const Demand& base, const Demand& a, const Demand& b, double times) {
  Demand result = base;
  const auto plus = [times](double of_base, double of_a, double of_b) {
    return of_base + times * (of_b - of_a);
  };
  const auto of = [](const auto& map, const auto& key) {
    const auto place = map.find(key);
    return place == map.end() ? typename std::decay_t<decltype(map)>::mapped_type{} : place->second;
  };
  for (const Demand* one : {&a, &b}) {
    for (const auto& [key, sent] : one->sent) result.sent.try_emplace(key);
    for (const auto& [flops, count] : one->products) result.products.try_emplace(flops, 0);
  }
  for (auto& [key, sent] : result.sent) {
    const Sent of_a = of(a.sent, key), of_b = of(b.sent, key);
    for (double Sent::* each : {&Sent::calls, &Sent::payload_bytes, &Sent::sent_bytes})
      sent.*each = plus(sent.*each, of_a.*each, of_b.*each);
    sent.element_bytes = std::max({sent.element_bytes, of_a.element_bytes, of_b.element_bytes});
  }
  for (auto& [flops, count] : result.products)
    count = plus(count, of(a.products, flops), of(b.products, flops));
  for (double Demand::* each : {&Demand::other_bytes, &Demand::instructions, &Demand::update_bytes,
                                &Demand::update_instructions})
    result.*each = plus(base.*each, a.*each, b.*each);
  for (double MemoryNeed::* each :
       {&MemoryNeed::parameters, &MemoryNeed::rounded, &MemoryNeed::optimizer,
        &MemoryNeed::gradients, &MemoryNeed::weights, &MemoryNeed::activations})
    result.memory.*each = plus(base.memory.*each, a.memory.*each, b.memory.*each);
  for (double InFlight::* each : {&InFlight::kept, &InFlight::passing, &InFlight::apart})
    result.in_flight.*each = plus(base.in_flight.*each, a.in_flight.*each, b.in_flight.*each);
  return result;
}

Demand extrapolated(const Demand& a, const Demand& b, double times) {
  Demand result = with_difference(a, a, b, times);
  result.room_bytes = b.room_bytes;
  result.largest = b.largest;
  return result;
}

}  // namespace fourfold::search
