#include "compile/lower.h"

#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "op/blocks.h"

namespace fourfold::compile {
namespace {

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

bool is_feed(ValueRole role) {
  return role == ValueRole::tokens || role == ValueRole::labels;
}

TaskKind task_kind(const std::string& graph) {
  static const std::map<std::string, TaskKind> kinds = {
      {"init", TaskKind::init},      {"train", TaskKind::forward}, {"evaluate", TaskKind::evaluate},
      {"prefill", TaskKind::decode}, {"decode", TaskKind::decode}, {"digest", TaskKind::digest}};
  return kinds.at(graph);
}

class Lowering {
 public:
  Lowering(const Recomputed& recomputed, const plan::Plan& plan, const PersistentLayout& persistent)
      : graph_(recomputed.graph),
        origin_(recomputed.origin),
        plan_(plan),
        shardings_(plan.of(recomputed.graph.name)) {
    program_.name = graph_.name;
    program_.world = plan.world;
    program_.meshes = plan.meshes;
    program_.streams = {"math"};
    program_.buffers = persistent.buffers;
    program_.persistent_bytes = persistent.bytes;
    micros_ = graph_.name == "train" ? plan.batching.accumulation : 1;
    add_feeds();
    add_buffers();
  }

  program::Program run() {
    const bool is_train = graph_.name == "train";
    for (std::int64_t micro = 0; micro < micros_; ++micro) {
      const std::optional<std::int64_t> label =
          program_.feeds.micros > 0 ? std::optional(micro) : std::nullopt;
      begin_task(task_kind(graph_.name), label);
      feed(micro);
      compute(Phase::forward, micro);
      end_task();
      if (!is_train) continue;
      begin_task(TaskKind::backward, micro);
      compute(Phase::backward, micro);
      end_task();
    }
    if (is_train) {
      begin_task(TaskKind::update, std::nullopt);
      compute(Phase::update, 0);
      end_task();
    }
    return std::move(program_);
  }

 private:
  void add_feeds() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const graph::Value& value = graph_.values[i];
      if (!is_feed(value.role)) continue;
      program_.feeds = {micros_, value.shape[0], 0, local_shape(i)[0], value.shape[1]};
      if (program_.streams.size() == 1) program_.streams.emplace_back("feed");
    }
  }

  const op::Sharding& sharding(std::size_t value) const {
    return shardings_[origin_[value].index()];
  }
  Shape local_shape(std::size_t value) const {
    return op::local_shape(graph_.values[value].shape, sharding(value),
                           plan_.meshes[sharding(value).mesh.index()]);
  }

  program::BufferRole transient_role(ValueRole role) const {
    if (is_feed(role)) return program::BufferRole::feed;
    if (role == ValueRole::gradient) return program::BufferRole::gradient;
    if (role == ValueRole::output) return program::BufferRole::output;
    return program::BufferRole::activation;
  }

  void add_buffers() {
    slots_.resize(graph_.values.size());
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const graph::Value& value = graph_.values[i];
      if (value.role == ValueRole::step || value.role == ValueRole::result) continue;
      if (graph::is_persistent(value.role)) {
        slots_[i] = {*program_.find_buffer(value.name)};
        continue;
      }
      program::Buffer buffer;
      buffer.dtype = op::element_dtype(value.element, plan_.compute);
      buffer.global = value.shape;
      buffer.sharding = sharding(i);
      buffer.role = transient_role(value.role);
      buffer.size_bytes = local_shape(i).elements() * size_bytes(buffer.dtype);
      const std::int64_t depth = is_feed(value.role) && micros_ > 1 ? 2 : 1;
      for (std::int64_t slot = 0; slot < depth; ++slot) {
        buffer.name = depth == 1 ? value.name : format("{}#{}", value.name, slot);
        slots_[i].emplace_back(program_.buffers.size());
        program_.buffers.push_back(buffer);
      }
    }
  }

  Slice slice(ValueId id, std::int64_t micro) const {
    const graph::Value& value = graph_.value(id);
    if (value.role == ValueRole::step || value.role == ValueRole::result) {
      const auto field = op::find_block_field(value.name);
      const BufferId block =
          *program_.find_buffer(value.role == ValueRole::step ? "step" : "result");
      return {block, static_cast<std::int64_t>(field->offset_bytes), 1, size_bytes(field->dtype),
              0};
    }
    const auto& slots = slots_[id.index()];
    return program_.whole(slots[static_cast<std::size_t>(micro) % slots.size()]);
  }

  void feed(std::int64_t micro) {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueRole role = graph_.values[i].role;
      if (!is_feed(role)) continue;
      const auto kind =
          role == ValueRole::tokens ? program::FeedKind::tokens : program::FeedKind::labels;
      program_.instructions.push_back(
          {feed_stream, program::Feed{kind, micro, slice(ValueId(i), micro)}});
    }
  }

  void compute(Phase phase, std::int64_t micro) {
    for (const Node& node : graph_.nodes)
      if (node.phase == phase) compute(node, micro);
  }

  void compute(const Node& node, std::int64_t micro) {
    program::Compute instruction;
    instruction.op = op::with_micro(node.op, micro);
    instruction.dtype = compute_dtype(node);
    for (const ValueId id : node.reads) instruction.slices.push_back(slice(id, micro));
    for (const ValueId id : node.outputs) instruction.slices.push_back(slice(id, micro));
    if (op::can_accumulate(node.op)) {
      const bool is_sum = graph::is_sum(graph_.value(node.outputs[0]).role);
      const bool first = started_.insert(node.outputs[0]).second;
      instruction.op = op::with_accumulate(instruction.op, is_sum && !first);
    }
    program_.instructions.push_back({math_stream, std::move(instruction)});
  }

  /// The element type of the computation; counters are filled and digested in their own.
  DType compute_dtype(const Node& node) const {
    const bool by_operand =
        std::holds_alternative<op::Fill>(node.op) || std::holds_alternative<op::Digest>(node.op);
    if (!by_operand) return plan_.compute;
    const ValueId id = node.reads.empty() ? node.outputs[0] : node.reads[0];
    return op::element_dtype(graph_.value(id).element, plan_.compute);
  }

  void begin_task(TaskKind kind, std::optional<std::int64_t> micro) {
    program_.tasks.push_back({kind, micro, program_.instructions.size(), 0});
  }
  void end_task() { program_.tasks.back().end = program_.instructions.size(); }

  const graph::Graph& graph_;
  const std::vector<ValueId>& origin_;
  const plan::Plan& plan_;
  const std::vector<op::Sharding>& shardings_;
  program::Program program_;
  std::int64_t micros_ = 1;
  std::vector<std::vector<BufferId>>
      slots_;                  // by value: its buffers, by micro-batch modulo their number
  std::set<ValueId> started_;  // sums that have a first producer
};

}  // namespace

program::Program lower(const Recomputed& recomputed, const plan::Plan& plan,
                       const PersistentLayout& persistent) {
  return Lowering(recomputed, plan, persistent).run();
}

}  // namespace fourfold::compile
