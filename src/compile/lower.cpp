#include "compile/lower.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "compile/departures.h"
#include "compile/mesh_order.h"
#include "compile/receipts.h"
#include "compile/step_tasks.h"
#include "op/blocks.h"
#include "op/table.h"
#include "op/zeros.h"
#include "pipeline/order.h"

namespace fourfold::compile {
namespace {

/// The op with its attributes that say how much of an operand is here (op::Place) set for operands
/// of these local shapes. Not its coordinates: see program/bind.h.
op::Op localize(op::Op op, const std::function<Shape(std::size_t operand)>& local_shape) {
  op::for_each_place(op, [&]<class T>(const op::Place& place, T& told) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (place.told != op::Place::Told::local_size) return;
      const Shape shape = local_shape(place.operand);
      told = shape[place.dim_of(shape)];
    } else if constexpr (std::is_same_v<T, Shape>) {
      told = local_shape(place.operand);
    }
  });
  return op;
}

using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueRole;
using program::BufferId;
using program::Slice;
using program::StreamId;
using program::TaskKind;

constexpr StreamId math_stream{std::size_t{0}};
constexpr StreamId feed_stream{std::size_t{1}};

/// Returns the kind of the task that a graph becomes; training begins with `forward`.
TaskKind task_kind(op::ProgramKind graph) {
  switch (graph) {
    case op::ProgramKind::init:
      return TaskKind::init;
    case op::ProgramKind::train:
      return TaskKind::forward;
    case op::ProgramKind::evaluate:
    case op::ProgramKind::bound:
      return TaskKind::evaluate;
    case op::ProgramKind::prefill:
    case op::ProgramKind::decode:
    case op::ProgramKind::denoise:
      return TaskKind::decode;
    case op::ProgramKind::digest:
      return TaskKind::digest;
  }
  fail_internal("every graph has forward tasks of some kind");
}

class Lowering {
 public:
  Lowering(const ShardedGraph& graph, const plan::Plan& plan, const PersistentRegion& persistent,
           const Transfers& transfers, const Departures& departures, Rank rank)
      : graph_(graph),
        plan_(plan),
        transfers_(transfers),
        departures_(departures),
        rank_(rank),
        order_(plan, graph.kind, graph.mesh),
        receipts_(receipts_of(graph, plan)) {
    program_.kind = graph_.kind;
    program_.world = plan.world;
    program_.meshes = plan.meshes;
    if (graph_.rounds_gradients) program_.reduce = plan.compute;
    program_.streams = {"math"};
    program_.buffers = persistent.buffers;
    program_.persistent_bytes = persistent.bytes;
    if (graph_.kind == op::ProgramKind::train) chunks_ = plan.batching.chunks;
    add_feeds();
    add_groups();
    tasks_ = step_tasks(graph_, plan, order_, receipts_, departures_);
    add_buffers();
  }

  program::Program run() {
    auto receipt = receipts_.cbegin();
    for (std::size_t at = 0; at < order_.tasks().size(); ++at) {
      while (receipt != receipts_.end() && receipt->before == at) receipt = receive(receipt);
      at_ = at;
      carry_out(order_.tasks()[at]);
    }
    return std::move(program_);
  }

 private:
  using Receipts = std::vector<Receipt>;

  /// True if all that a task reads of other stages is received before it, and not where it is read.
  /// Two stages that send to each other and compute no further until that has arrived must receive
  /// first; an update, and a program of one task, also receive what others make of what it sends.
  bool receives_first(const pipeline::Task& task) const {
    return plan_.overlap.send_recv ||
           (!order_.is_one_task() && task.kind != pipeline::TaskKind::update);
  }

  /// What one task reads of all that is received in a row: a task of its own. Returns what comes
  /// after it.
  Receipts::const_iterator receive(Receipts::const_iterator receipt) {
    const std::size_t reader = receipt->reader;
    const pipeline::Task& task = order_.tasks()[reader];
    const bool is_of_micro = task.kind != pipeline::TaskKind::update;
    micro_ = task.micro;
    const std::size_t begin = program_.instructions.size(), before = receipt->before;
    for (; receipt != receipts_.end() && receipt->before == before && receipt->reader == reader;
         ++receipt)
      if (receives_first(task)) emit(graph_.steps[receipt->step]);
    if (program_.instructions.size() > begin)
      program_.tasks.push_back({TaskKind::receive,
                                is_of_micro ? std::optional(micro_) : std::nullopt, begin,
                                program_.instructions.size()});
    return receipt;
  }

  static bool is_receipt(const Step& step) {
    const auto* handover = std::get_if<Handover>(&step);
    return handover != nullptr && !handover->sends;
  }

  void carry_out(const pipeline::Task& task) {
    micro_ = task.micro;
    if (task.kind == pipeline::TaskKind::forward) {
      begin_task(task_kind(graph_.kind), has_samples() ? std::optional(micro_) : std::nullopt);
      feed(task);
    } else if (task.kind == pipeline::TaskKind::update) {
      begin_task(TaskKind::update, std::nullopt);
    } else {
      const bool is_split = task.kind == pipeline::TaskKind::weight_backward;
      begin_task(is_split ? TaskKind::weight_backward : TaskKind::backward, micro_);
    }
    const std::vector<std::size_t>& steps =
        tasks_.steps[{task.kind, order_.stage_of(task.kind, task.stage)}];
    const bool has_received = receives_first(task);
    const std::int64_t chunks = task.kind == pipeline::TaskKind::update ? 1 : chunks_;
    for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
      end = chunks == 1 ? steps.size() : end_of_stretch(steps, begin);
      for (chunk_ = 0; chunk_ < chunks; ++chunk_)
        for (std::size_t i = begin; i < end; ++i)
          if (!(has_received && is_receipt(graph_.steps[steps[i]])) &&
              (chunks == 1 || is_carried_out(steps[i], chunk_ + 1 == chunks)))
            emit(graph_.steps[steps[i]]);
    }
    chunk_ = 0;
    send_what_leaves();
    end_task();
  }

  /// A stretch of steps is carried out for one chunk after another. It ends after the next
  /// collectives of activations, which then run beside the same stretch of the next chunk, and
  /// beside the one that follows of the chunk before (ATP, Cheng et al. 2023, figure 8).
  std::size_t end_of_stretch(const std::vector<std::size_t>& steps, std::size_t begin) const {
    const auto is_exchange = [&](std::size_t i) {
      const auto* move = std::get_if<Move>(&graph_.steps[steps[i]]);
      return move != nullptr && move->purpose == Purpose::activations &&
             is_collective(move->conversion.kind);
    };
    std::size_t end = begin;
    while (end < steps.size() && !is_exchange(end)) ++end;
    while (end < steps.size() && is_exchange(end)) ++end;
    return end;
  }

  bool is_carried_out(std::size_t step, bool is_last_chunk) const {
    const Times times = tasks_.times[step];
    return times == Times::of_each_chunk ||
           (times == Times::once_before ? chunk_ == 0 : is_last_chunk);
  }

  /// True if anything is fed here, or comes from a stage that is.
  bool has_samples() const {
    return program_.feeds.micros > 0 || std::ranges::any_of(graph_.steps, [](const Step& step) {
             const auto* handover = std::get_if<Handover>(&step);
             return handover != nullptr && !handover->sends;
           });
  }

  // --- tables

  void add_feeds() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ShardedValue& value = graph_.values[i];
      if (value.role != ValueRole::input) continue;
      input_of_[ValueId(i)] = program::InputId(program_.inputs.size());
      program_.inputs.push_back({value.name, element_dtype(ValueId(i)),
                                 Shape({value.shape.begin() + 1, value.shape.end()})});
      program_.feeds = {order_.micros(), value.shape[0] * chunks_, 0, local_shape(i)[0] * chunks_,
                        chunks_};
      if (program_.streams.size() == 1) program_.streams.emplace_back("feed");
    }
    if (program_.inputs.empty() && has_samples()) count_samples();
  }

  /// A stage that is fed nothing counts the samples that it receives.
  void count_samples() {
    const std::int64_t samples = plan_.batching.samples();
    const Mesh& mesh = plan_.meshes[graph_.mesh.index()];
    const plan::Axes axes = plan::axes_of(mesh);
    const std::int64_t replicas =
        mesh.axes[axes.data.index()].size * mesh.axes[axes.z.index()].size;
    program_.feeds = {order_.micros(), samples, 0, samples / replicas, 1};
  }

  /// What has a group and a stream of its own.
  using Line = std::pair<std::vector<AxisId>, Purpose>;
  static Line line_of(const Move& move) { return {move.conversion.axes, move.purpose}; }

  /// A group and a stream for all that moves along the same axes for one purpose, in the order of
  /// the mesh.
  void add_groups() {
    std::set<Line> lines;
    for (const Step& step : graph_.steps)
      if (const auto* move = std::get_if<Move>(&step);
          move != nullptr && is_collective(move->conversion.kind))
        lines.insert(line_of(*move));
    for (const Line& line : lines) {
      program::Group group{{}, graph_.mesh, line.first, {}};
      group.name = program_.axes_text(group);
      if (line.second == Purpose::weights) group.name += ".weights";
      if (line.second == Purpose::gradients) group.name += ".gradients";
      group_of_[line] = program::GroupId(program_.groups.size());
      stream_of_[line] = StreamId(program_.streams.size());
      program_.streams.push_back(group.name);
      program_.groups.push_back(std::move(group));
    }
  }

  Shape local_shape(std::size_t value) const {
    const op::Sharding& sharding = graph_.values[value].sharding;
    return op::local_shape(graph_.values[value].shape, sharding,
                           plan_.meshes[sharding.mesh.index()]);
  }

  static program::BufferRole transient_role(ValueRole role) {
    if (role == ValueRole::input) return program::BufferRole::feed;
    if (role == ValueRole::gradient) return program::BufferRole::gradient;
    if (role == ValueRole::output) return program::BufferRole::output;
    return program::BufferRole::activation;
  }

  static bool is_field(const ShardedValue& value) {
    return op::find_block_field(value.name).has_value();
  }

  void add_buffers() {
    slots_.resize(graph_.values.size());
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ShardedValue& value = graph_.values[i];
      if (is_field(value) || value.window_of) continue;
      if (graph::is_persistent(value.role)) {
        slots_[i] = {*program_.find_buffer(value.name)};
        continue;
      }
      program::Buffer buffer;
      buffer.dtype = element_dtype(ValueId(i));
      buffer.global = value.shape;
      buffer.sharding = value.sharding;
      buffer.blocked = value.blocked;
      buffer.label = value.label;
      buffer.role = transient_role(value.role);
      buffer.size_bytes = local_elements(i) * size_bytes(buffer.dtype);
      const std::int64_t depth = tasks_.slots[i] * (tasks_.is_of_chunk[i] ? chunks_ : 1);
      for (std::int64_t slot = 0; slot < depth; ++slot) {
        buffer.name = depth == 1 ? value.name : format("{}#{}", value.name, slot);
        slots_[i].emplace_back(program_.buffers.size());
        program_.buffers.push_back(buffer);
      }
    }
  }

  /// Blocked values have room for the padding of their last parts.
  std::int64_t local_elements(std::size_t i) const {
    const ShardedValue& value = graph_.values[i];
    Shape local = local_shape(i);
    if (value.blocked) {
      const std::int64_t ranks =
          plan_.meshes[value.sharding.mesh.index()].axes[value.blocked->axis.index()].size;
      local[value.blocked->dim] = value.blocked->share * ranks;
    }
    return local.elements();
  }

  Slice slice(ValueId id) const {
    const ShardedValue& value = graph_.value(id);
    if (const auto field = op::find_block_field(value.name)) {
      const bool is_step = value.role == ValueRole::step;
      return {*program_.find_buffer(is_step ? "step" : "result"),
              static_cast<std::int64_t>(field->offset_bytes), 1, size_bytes(field->dtype), 0};
    }
    if (value.window_of) {
      const program::BufferId whole = slots_[value.window_of->index()][0];
      return {whole, 0, 1,
              local_shape(id.index()).elements() * size_bytes(program_.buffer(whole).dtype), 0};
    }
    const auto& slots = slots_[id.index()];
    const std::int64_t place = tasks_.is_of_chunk[id.index()] ? micro_ * chunks_ + chunk_ : micro_;
    return program_.whole(slots[static_cast<std::size_t>(place) % slots.size()]);
  }

  // --- instructions

  /// Each input comes with the first task that reads it.
  void feed(const pipeline::Task& task) {
    const std::size_t stage = order_.stage_of(task.kind, task.stage);
    for (chunk_ = 0; chunk_ < chunks_; ++chunk_)
      for (const auto& [id, input] : input_of_)
        if (tasks_.fed_for.at(id) == stage)
          program_.instructions.push_back(
              {feed_stream, program::Feed{input, micro_, slice(id), chunk_}});
    chunk_ = 0;
  }

  void emit(const Step& step) {
    if (const auto* node = std::get_if<Node>(&step)) {
      if (micro_ == 0 || !graph_.value(node->outputs[0]).is_rounded_weight) compute(*node);
    } else if (const auto* move = std::get_if<Move>(&step)) {
      if (micro_ == 0 || !graph_.value(move->to).is_converted_once) emit(*move);
    } else if (const auto& handover = std::get<Handover>(step);
               micro_ == 0 || !plan_.edges[handover.edge].goes_once_a_step) {
      emit(handover);
    }
  }

  void compute(const Node& node) {
    program::Compute instruction;
    const auto shape_of = [&](std::size_t operand) {
      const std::size_t reads = node.reads.size();
      const ValueId id = operand < reads ? node.reads[operand] : node.outputs[operand - reads];
      return local_shape(id.index());
    };
    const op::Op op = op::with_chunk(op::with_micro(node.op, micro_), chunk_, chunks_);
    if (chunks_ > 1) check_samples(op, shape_of);
    instruction.op = localize(op, shape_of);
    instruction.dtype = compute_dtype(node);
    instruction.slices.reserve(node.reads.size() + node.outputs.size());
    for (const ValueId id : node.reads) instruction.slices.push_back(slice(id));
    for (const ValueId id : node.outputs) instruction.slices.push_back(slice(id));
    if (op::can_accumulate(node.op)) {
      const auto sum = std::ranges::find_if(node.outputs, [&](ValueId id) {
        return graph::is_sum(graph_.value(id).role) || graph_.value(id).is_micro_sum;
      });
      const bool adds = sum != node.outputs.end() && !starts(*sum);
      instruction.op = op::with_accumulate(instruction.op, adds);
      if (element_dtype(node.outputs[0]) != plan_.compute)
        instruction.op = op::with_unrounded(instruction.op);
    }
    program_.instructions.push_back({math_stream, std::move(instruction)});
  }

  /// Samples of several ranks are no range of numbers in a chunk, as a window would have them.
  void check_samples(const op::Op& op,
                     const std::function<Shape(std::size_t operand)>& shape_of) const {
    op::for_each_place(op, [&]<class T>(const op::Place& place, const T&) {
      if constexpr (std::is_same_v<T, op::SampleWindow>)
        require(shape_of(place.operand)[0] <= program_.feeds.of_chunk(),
                "what is drawn for a chunk is for samples of one rank");
    });
  }

  /// True if the sum has no term yet, of its micro-batch where each has its own.
  bool starts(ValueId sum) {
    return started_.emplace(sum, graph_.value(sum).is_micro_sum ? micro_ : 0).second;
  }

  /// What arrives is added to its sum on the stream that it arrives on: computation need not wait
  /// for it.
  void emit(const Move& move) {
    const bool starts_sum = move.sum && starts(*move.sum);
    const bool becomes_sum = starts_sum && !is_rounded(move);
    const ValueId to = becomes_sum ? *move.sum : move.to;
    const bool is_made = to != move.from || is_collective(move.conversion.kind);
    if (is_made) program_.instructions.push_back(instruction_of(move, slice(move.from), slice(to)));
    if (!move.sum || becomes_sum) return;
    const StreamId stream = is_made ? program_.instructions.back().stream : math_stream;
    compute(addition(move, starts_sum));
    program_.instructions.back().stream = stream;
  }

  /// True if what moves has another type than the sum that it is added to.
  bool is_rounded(const Move& move) const {
    return element_dtype(move.to) != element_dtype(*move.sum);
  }
  /// What leads a term that has moved to its sum, or begins the sum.
  Node addition(const Move& move, bool starts_sum) const {
    if (starts_sum) return {op::widening(), {move.to}, {*move.sum}, move.phase, std::nullopt};
    const op::Op row = is_rounded(move) ? op::sum_with_rounded() : op::sum_of_two();
    return {row, {*move.sum, move.to}, {*move.sum}, move.phase, std::nullopt};
  }

  void emit(const Handover& handover) {
    if (handover.sends && leaves_later(handover))
      held_[plan_.edges[handover.edge].to].emplace_back(&handover, micro_);
    else
      exchange(handover);
  }

  /// True for what stands after a later task, and for what the same mesh takes after that.
  bool leaves_later(const Handover& handover) const {
    if (order_.is_one_task() || handover.phase == Phase::update) return false;
    const auto held = held_.find(plan_.edges[handover.edge].to);
    return (held != held_.end() && !held->second.empty()) ||
           departures_.place(handover.edge, micro_) > at_;
  }

  /// What has been held until this task.
  void send_what_leaves() {
    const std::int64_t micro = micro_;
    for (auto& [mesh, held] : held_)
      for (; !held.empty(); held.pop_front()) {
        const Handover* handover = held.front().first;
        micro_ = held.front().second;
        if (departures_.place(handover->edge, micro_) > at_) break;
        exchange(*handover);
      }
    micro_ = micro;
  }

  void exchange(const Handover& handover) {
    const plan::Edge& edge = plan_.edges[handover.edge];
    if (!handover.sends && is_read_with_padding(handover)) clear(handover);
    const Slice all = slice(handover.value);
    for (const Message& message : transfers_.messages(handover.edge, rank_)) {
      if (message.is_turn) {
        take_turn(handover, message);
        continue;
      }
      const std::int64_t tag = tag_of(handover.edge, false, plan_);
      const Slice run{all.buffer, all.offset_bytes + message.slice.offset_bytes, message.slice.rows,
                      message.slice.row_bytes,
                      message.slice.rows == 1 ? 0 : message.slice.pitch_bytes};
      if (message.sends)
        program_.instructions.push_back({edge_stream(edge, handover.sends ? "to" : "pass"),
                                         program::Send{message.peer, tag, run}});
      else
        program_.instructions.push_back(
            {edge_stream(edge, "from"), program::Recv{message.peer, tag, run}});
    }
  }

  /// True for what comes once in a step, weights and terms of their gradients, to ranks whose tiles
  /// have padding: rows compute with it, and no message brings it. Other values are gathered first.
  bool is_read_with_padding(const Handover& handover) const {
    const plan::Edge& edge = plan_.edges[handover.edge];
    return (edge.goes_once_a_step || handover.phase == Phase::update) &&
           plan::is_padded(edge.received);
  }

  void clear(const Handover& handover) {
    const op::Op row = op::zeros(graph_.value(handover.value).shape);
    compute({row, {}, {handover.value}, handover.phase, {}});
  }

  /// What the next rank of a host waits for, on the stream of what both send or receive. It is the
  /// number of the step, which all ranks know, and nobody reads it where it arrives.
  void take_turn(const Handover& handover, const Message& message) {
    const std::int64_t tag = tag_of(handover.edge, true, plan_);
    const StreamId stream = edge_stream(plan_.edges[handover.edge], handover.sends ? "to" : "from");
    const op::BlockField field = *op::find_block_field("step.step");
    const auto bytes = static_cast<std::int64_t>(size_bytes(field.dtype));
    if (message.sends) {
      const Slice step{*program_.find_buffer("step"), static_cast<std::int64_t>(field.offset_bytes),
                       1, bytes, 0};
      program_.instructions.push_back({stream, program::Send{message.peer, tag, step}});
      return;
    }
    const auto [place, is_new] = turns_.try_emplace(stream, program_.buffers.size());
    if (is_new) {
      program::Buffer buffer;
      buffer.name = "turn." + program_.streams[stream.index()];
      buffer.dtype = field.dtype;
      buffer.sharding.mesh = graph_.mesh;
      buffer.size_bytes = bytes;
      program_.buffers.push_back(std::move(buffer));
    }
    program_.instructions.push_back(
        {stream, program::Recv{message.peer, tag, program_.whole(place->second)}});
  }

  /// A stream for each direction between two meshes, and one for what a mesh passes on of what it
  /// has received: none waits for another.
  StreamId edge_stream(const plan::Edge& edge, std::string_view way) {
    const MeshId other = way == "to" ? edge.to : edge.from;
    const std::string name = format("{}.{}", way, other.index());
    for (std::size_t i = 0; i < program_.streams.size(); ++i)
      if (program_.streams[i] == name) return StreamId(i);
    program_.streams.push_back(name);
    return StreamId(program_.streams.size() - 1);
  }

  program::Instruction instruction_of(const Move& move, const Slice& from, const Slice& to) const {
    const Conversion& c = move.conversion;
    if (const auto collective = c.kind.collective())
      return {stream_of_.at(line_of(move)), call_of(*collective, move, from, to)};
    switch (c.kind.own()) {
      case OwnMove::slice:
        return {math_stream, own_block(move, from, to)};
      case OwnMove::copy:
        return {math_stream, program::Copy{from, to}};
      case OwnMove::pack:
        return {math_stream, program::Pack{from, to}};
      case OwnMove::unpack:
        return {math_stream, program::Unpack{from, to}};
    }
    fail_internal("every move has an instruction");
  }

  program::What call_of(Collective kind, const Move& move, const Slice& from,
                        const Slice& to) const {
    const program::GroupId group = group_of_.at(line_of(move));
    const op::Reduction reduction = move.conversion.reduction;
    const CollectiveFacts& facts = facts_of(kind);
    if (facts.is_in_place()) return program::AllReduce{group, reduction, {to}, kind};
    if (facts.reduces()) return program::ReduceScatter{group, reduction, {from}, {to}, kind};
    if (facts.scatters()) return program::AllToAll{group, {from}, {to}, kind};
    return program::AllGather{group, {from}, {to}, kind};
  }

  /// The rows of `from` that are block 0 of the dim, or its share 0; program::bind moves them to
  /// this rank's.
  program::Copy own_block(const Move& move, const Slice& from, const Slice& to) const {
    if (graph_.value(move.from).blocked) return {{from.buffer, 0, 1, to.bytes(), 0}, to};
    const Shape whole = local_shape(move.from.index()), own = local_shape(move.to.index());
    const std::size_t dim = move.conversion.dim;
    require(whole[dim] % own[dim] == 0, "a slice has no padding");
    const std::int64_t inner =
        whole.elements(dim + 1, whole.rank()) * size_bytes(program_.buffer(from.buffer).dtype);
    const std::int64_t rows = whole.elements(0, dim);
    return {{from.buffer, 0, rows, own[dim] * inner, rows == 1 ? 0 : whole[dim] * inner}, to};
  }

  DType element_dtype(ValueId id) const {
    return op::element_dtype(graph_.value(id).element, plan_.compute);
  }

  /// The element type of the computation; counters, weights and their gradients are filled, added,
  /// updated and digested in their own.
  DType compute_dtype(const Node& node) const {
    if (!op::takes_any_element(node.op)) return plan_.compute;
    const op::Operands operands = op::operands(node.op);
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].element == op::Element::compute)
        return element_dtype(i < node.reads.size() ? node.reads[i]
                                                   : node.outputs[i - node.reads.size()]);
    fail_internal("an op that takes any element has an operand of it");
  }

  void begin_task(TaskKind kind, std::optional<std::int64_t> micro) {
    program_.tasks.push_back({kind, micro, program_.instructions.size(), 0});
  }
  void end_task() { program_.tasks.back().end = program_.instructions.size(); }

  const ShardedGraph& graph_;
  const plan::Plan& plan_;
  const Transfers& transfers_;
  const Departures& departures_;
  program::Program program_;
  Rank rank_;
  MeshOrder order_;
  Receipts receipts_;
  StepTasks tasks_;
  std::int64_t micro_ = 0;
  std::size_t at_ = 0;  // the place of the task
  /// By mesh that takes it: what leaves later than it is made, and its micro-batch.
  std::map<MeshId, std::deque<std::pair<const Handover*, std::int64_t>>> held_;
  std::int64_t chunks_ = 1, chunk_ = 0;  // of a micro-batch
  std::map<ValueId, program::InputId> input_of_;
  std::map<Line, program::GroupId> group_of_;
  std::map<Line, StreamId> stream_of_;
  std::map<StreamId, BufferId> turns_;  // where they are received
  std::vector<std::vector<BufferId>>
      slots_;  // by value: its buffers, by micro-batch, or chunk, modulo their number
  std::set<std::pair<ValueId, std::int64_t>> started_;  // sums, of a micro-batch, with a term
};

}  // namespace

program::Program lower(const ShardedGraph& graph, const plan::Plan& plan,
                       const PersistentRegion& persistent, const Transfers& transfers,
                       const Departures& departures, Rank rank) {
  return Lowering(graph, plan, persistent, transfers, departures, rank).run();
}

}  // namespace fourfold::compile
