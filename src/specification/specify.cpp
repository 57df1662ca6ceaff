#include "specification/specify.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "op/blocks.h"

namespace fourfold::specification {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using program::Buffer;
using program::BufferId;
using program::BufferRole;
using program::Program;
using program::Region;
using program::Slice;
using program::TaskKind;

/// A region in which each buffer has bytes of its own.
class Addresses {
 public:
  std::int64_t next(std::int64_t bytes) {
    constexpr std::int64_t alignment = 64;  // as the verifier asks
    const std::int64_t offset = end_;
    end_ += (bytes + alignment - 1) / alignment * alignment;
    return offset;
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

BufferRole role_of(const Value& value) {
  switch (value.role) {
    case ValueRole::parameter:
      return BufferRole::parameter;
    case ValueRole::moment:
      return BufferRole::moment;
    case ValueRole::average:
      return BufferRole::average;
    case ValueRole::counter:
      return BufferRole::counter;
    case ValueRole::cache:
      return BufferRole::cache;
    case ValueRole::input:
      return BufferRole::feed;
    case ValueRole::activation:
      return BufferRole::activation;
    case ValueRole::gradient:
      return BufferRole::gradient;
    case ValueRole::output:
      return BufferRole::output;
    case ValueRole::rounded:
    case ValueRole::received:
    case ValueRole::step:
    case ValueRole::result:
      break;
  }
  fail_internal(
      format("{} has no buffer in the program of one rank that rounds nothing", value.name));
}

Buffer buffer_of(const Value& value, DType type, Addresses& addresses) {
  Buffer buffer{.name = value.name,
                .dtype = op::element_dtype(value.element, type),
                .global = value.shape,
                .sharding = {},
                .blocked = std::nullopt,
                .region = graph::is_persistent(value.role) ? Region::persistent : Region::transient,
                .role = role_of(value),
                .label = value.label};
  buffer.size_bytes = buffer.global.elements() * size_bytes(buffer.dtype);
  buffer.offset_bytes = addresses.next(buffer.size_bytes);
  return buffer;
}

Buffer fields_of(std::string_view name, std::size_t bytes, BufferRole role, Addresses& addresses) {
  const auto size = static_cast<std::int64_t>(bytes);
  return {.name = std::string(name),
          .dtype = DType::i64,
          .global = {size / size_bytes(DType::i64)},
          .sharding = {},
          .blocked = std::nullopt,
          .region = Region::persistent,
          .role = role,
          .offset_bytes = addresses.next(size),
          .size_bytes = size};
}

constexpr std::size_t step_block = 0, result_block = 1;  // places among the buffers

/// What all programs have: both blocks, and the values that persist.
struct State {
  std::vector<Buffer> buffers;
  std::unordered_map<std::string, BufferId> by_name;
  std::int64_t bytes = 0;
};

State state_of(const graph::ModelGraphs& graphs, DType type) {
  State state;
  Addresses addresses;
  state.buffers = {
      fields_of("step", sizeof(op::StepBlock), BufferRole::step_block, addresses),
      fields_of("result", sizeof(op::ResultBlock), BufferRole::result_block, addresses)};
  for (const Graph& graph : graphs.graphs)
    for (const Value& value : graph.values) {
      if (!graph::is_persistent(value.role)) continue;
      const auto [place, is_new] =
          state.by_name.try_emplace(value.name, BufferId(state.buffers.size()));
      if (is_new) state.buffers.push_back(buffer_of(value, type, addresses));
      const Buffer& buffer = state.buffers[place->second.index()];
      require(buffer.global == value.shape && buffer.role == role_of(value) &&
                  buffer.dtype == op::element_dtype(value.element, type),
              [&] { return format("{} is the same tensor in all graphs", value.name); });
    }
  state.bytes = addresses.end();
  return state;
}

/// Which part of a program a node is in.
TaskKind task_of(op::ProgramKind program, graph::Phase phase) {
  switch (program) {
    case op::ProgramKind::init:
      return TaskKind::init;
    case op::ProgramKind::train:
      break;
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
  switch (phase) {
    case graph::Phase::forward:
      return TaskKind::forward;
    case graph::Phase::backward:
      return TaskKind::backward;
    case graph::Phase::update:
      return TaskKind::update;
  }
  fail_internal("every phase has a task");
}

/// True if a task is of a micro-batch, here the only one.
bool is_of_samples(TaskKind kind) {
  return kind != TaskKind::init && kind != TaskKind::update && kind != TaskKind::digest;
}

class ProgramWriter {
 public:
  ProgramWriter(const Graph& graph, const State& state, DType type)
      : graph_(graph), type_(type), is_made_(graph.values.size(), false) {
    require(graph.mesh == MeshId(), "the graphs of a specification are of one mesh");
    program_.kind = graph.kind;
    program_.meshes = {{"main", {{"data", 1}, {"z", 1}, {"y", 1}, {"x", 1}}, Ranks{Rank(0)}}};
    program_.streams = {std::string(program::math_stream)};
    program_.buffers = state.buffers;
    program_.persistent_bytes = state.bytes;
    place_values(state);
  }

  Program write() {
    if (!graph_.nodes.empty()) begin_task(task_of(graph_.kind, graph_.nodes.front().phase));
    write_feeds();
    for (const Node& node : graph_.nodes) {
      const TaskKind kind = task_of(graph_.kind, node.phase);
      if (kind != program_.tasks.back().kind) begin_task(kind);
      write_node(node);
    }
    if (!program_.tasks.empty()) program_.tasks.back().end = program_.instructions.size();
    return std::move(program_);
  }

 private:
  void place_values(const State& state) {
    Addresses addresses;
    for (const Value& value : graph_.values) {
      if (value.role == ValueRole::step || value.role == ValueRole::result) {
        slices_.push_back(field(value.name));
      } else if (graph::is_persistent(value.role)) {
        slices_.push_back(program_.whole(state.by_name.at(value.name)));
      } else {
        program_.buffers.push_back(buffer_of(value, type_, addresses));
        slices_.push_back(program_.whole(BufferId(program_.buffers.size() - 1)));
      }
    }
    program_.transient_bytes = addresses.end();
  }

  /// The bytes of a field of the step or result block.
  static Slice field(const std::string& name) {
    const auto found = op::find_block_field(name);
    require(found.has_value(), [&] { return format("{} is a field of a block", name); });
    const bool is_of_step = name.starts_with("step.");
    return {.buffer = BufferId(is_of_step ? step_block : result_block),
            .offset_bytes = static_cast<std::int64_t>(found->offset_bytes),
            .row_bytes = size_bytes(found->dtype)};
  }

  void begin_task(TaskKind kind) {
    const std::size_t here = program_.instructions.size();
    if (!program_.tasks.empty()) program_.tasks.back().end = here;
    program_.tasks.push_back(
        {.kind = kind,
         .micro = is_of_samples(kind) ? std::optional<std::int64_t>(0) : std::nullopt,
         .begin = here,
         .end = here});
  }

  void write_feeds() {
    program::Feeds& feeds = program_.feeds;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.role != ValueRole::input) continue;
      const std::int64_t samples = value.shape[0];
      require(feeds.micros == 0 || feeds.samples == samples,
              "all inputs of a graph have its number of samples");
      feeds = {.micros = 1, .samples = samples, .first = 0, .count = samples};
      Shape of_sample;
      for (std::size_t dim = 1; dim < value.shape.rank(); ++dim)
        of_sample.push_back(value.shape[dim]);
      const program::InputId input(program_.inputs.size());
      program_.inputs.push_back({value.name, op::element_dtype(value.element, type_), of_sample});
      add(program::Feed{.input = input, .micro = 0, .to = slices_[i]});
    }
  }

  void write_node(const Node& node) {
    program::Compute compute{.op = op_of(node),
                             .dtype = type_of(node),
                             .slices = {},
                             .workspace = std::nullopt,
                             .implementation = "reference"};
    for (const ValueId id : node.reads) compute.slices.push_back(slices_[id.index()]);
    for (const ValueId id : node.outputs) {
      compute.slices.push_back(slices_[id.index()]);
      is_made_[id.index()] = true;
    }
    add(std::move(compute));
  }

  /// The op of a node, which adds to its outputs where they are sums that have terms already.
  op::Op op_of(const Node& node) const {
    std::size_t sums = 0, begun = 0;
    for (const ValueId id : node.outputs) {
      if (!graph::is_sum(graph_.value(id).role)) continue;
      ++sums;
      if (is_made_[id.index()]) ++begun;
    }
    if (begun == 0) return node.op;
    require(begun == sums && op::can_accumulate(node.op),
            [&] { return format("{} can add to all its outputs", op::name(node.op)); });
    return op::with_accumulate(node.op, true);
  }

  /// The type of the computation, but for ops on counters and the like.
  DType type_of(const Node& node) const {
    if (!op::takes_any_element(node.op)) return type_;
    const op::Operands operands = op::operands(node.op);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].element != op::Element::compute) continue;
      const ValueId id =
          i < node.reads.size() ? node.reads[i] : node.outputs[i - node.reads.size()];
      return op::element_dtype(graph_.value(id).element, type_);
    }
    return type_;
  }

  void add(program::What what) { program_.instructions.push_back({StreamId(), std::move(what)}); }

  using StreamId = program::StreamId;
  const Graph& graph_;
  DType type_;
  Program program_;
  std::vector<Slice> slices_;  // by value: where it is
  std::vector<bool> is_made_;  // by value: a node that is written makes it
};

}  // namespace

program::Job specify(const graph::ModelGraphs& graphs, DType type) {
  require(type == DType::f64 || type == DType::f32, "a specification rounds no copies");
  const State state = state_of(graphs, type);
  program::Bundle bundle{.programs = {}, .persistent_bytes = state.bytes, .transient_bytes = 0};
  for (const Graph& graph : graphs.graphs)
    bundle.programs.push_back(ProgramWriter(graph, state, type).write());
  for (const Program& program : bundle.programs)
    bundle.transient_bytes = std::max(bundle.transient_bytes, program.transient_bytes);
  return {.classes = {std::move(bundle)}, .ranks = {program::Binding{}}};
}

}  // namespace fourfold::specification
