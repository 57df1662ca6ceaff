#include "compile/step_tasks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "op/table.h"

namespace fourfold::compile {
namespace {

using graph::Node;
using graph::Phase;
using graph::ValueRole;

Phase phase_of(const Step& step) {
  return std::visit([](const auto& s) { return s.phase; }, step);
}

struct Values {
  std::vector<ValueId> read, written;
};

Values values_of(const Step& step) {
  if (const auto* node = std::get_if<Node>(&step)) return {node->reads, node->outputs};
  if (const auto* move = std::get_if<Move>(&step)) {
    Values values{{move->from}, {move->to}};
    if (move->sum) values.written.push_back(*move->sum);
    return values;
  }
  const auto& handover = std::get<Handover>(step);
  return handover.sends ? Values{{handover.value}, {}} : Values{{}, {handover.value}};
}

/// The steps of the backward phase that make nothing but gradients of parameters: what they write
/// is such a sum, or read by other such steps alone.
std::vector<bool> steps_for_weights(const ShardedGraph& graph) {
  std::vector<bool> result(graph.steps.size(), false);
  std::vector<bool> is_wanted(graph.values.size(), false);  // by a step that makes something else
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    if (phase_of(graph.steps[i]) != Phase::backward) continue;
    const Values values = values_of(graph.steps[i]);
    result[i] =
        !std::holds_alternative<Handover>(graph.steps[i]) &&
        std::ranges::none_of(values.written, [&](ValueId id) { return is_wanted[id.index()]; });
    if (!result[i])
      for (const ValueId id : values.read) is_wanted[id.index()] = true;
  }
  return result;
}

/// Says of each step how often it is carried out, following values from what is fed and drawn.
void divide_into_chunks(const ShardedGraph& graph, StepTasks& tasks) {
  const std::size_t count = graph.values.size();
  std::vector<bool> is_merged(count, false);  // sums over chunks, and what is made of them
  tasks.is_of_chunk.assign(count, false);
  const auto is_sum = [&](ValueId id) {
    return graph::is_sum(graph.value(id).role) || graph.value(id).is_micro_sum;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const ValueRole role = graph.values[i].role;
    tasks.is_of_chunk[i] = role == ValueRole::input || role == ValueRole::received;
    is_merged[i] = is_sum(ValueId(i));
  }
  for (const Step& step : graph.steps) {
    const auto* node = std::get_if<Node>(&step);
    const Values values = values_of(step);
    const auto any_of = [&](const std::vector<bool>& marks) {
      return std::ranges::any_of(values.read, [&](ValueId id) { return marks[id.index()]; });
    };
    const bool is_of_chunk =
        any_of(tasks.is_of_chunk) || (node != nullptr && op::samples_of(node->op));
    const bool reads_sums = any_of(is_merged);
    require(!is_of_chunk || !reads_sums || phase_of(step) == Phase::update,
            "what is of one chunk is not read with what all chunks add up to");
    tasks.times.push_back(is_of_chunk  ? Times::of_each_chunk
                          : reads_sums ? Times::once_after
                                       : Times::once_before);
    for (const ValueId id : values.written) {
      if (is_sum(id)) continue;
      if (is_of_chunk) tasks.is_of_chunk[id.index()] = true;
      if (reads_sums) is_merged[id.index()] = true;
    }
  }
}

/// The kinds of task that touch a value first and last.
struct Use {
  std::optional<pipeline::TaskKind> first;
  pipeline::TaskKind last = pipeline::TaskKind::forward;
  bool is_sent = false;
  bool lasts_a_step = false;  // one for all micro-batches
};

std::vector<Use> uses_of(const ShardedGraph& graph, const plan::Plan& plan,
                         const StepTasks& tasks) {
  std::vector<Use> uses(graph.values.size());
  for (std::size_t kind = 0; kind < tasks.steps.size(); ++kind)
    for (const std::size_t i : tasks.steps[kind]) {
      const Step& step = graph.steps[i];
      const auto* node = std::get_if<Node>(&step);
      const auto* handover = std::get_if<Handover>(&step);
      const bool is_once =
          phase_of(step) == Phase::update ||
          (node != nullptr && graph.values[node->outputs[0].index()].is_rounded_weight) ||
          (handover != nullptr && plan.edges[handover->edge].goes_once_a_step);
      const Values values = values_of(step);
      for (const auto* list : {&values.read, &values.written})
        for (const ValueId id : *list) {
          Use& use = uses[id.index()];
          use.last = static_cast<pipeline::TaskKind>(kind);
          if (!use.first) use.first = use.last;
          if (is_once) use.lasts_a_step = true;
          if (handover != nullptr && handover->sends) use.is_sent = true;
        }
    }
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (graph::is_sum(graph.values[i].role)) uses[i].lasts_a_step = true;
  return uses;
}

}  // namespace

StepTasks step_tasks(const ShardedGraph& graph, const plan::Plan& plan,
                     const pipeline::Order& order) {
  const bool is_split = std::ranges::find(order, pipeline::TaskKind::weight_backward,
                                          &pipeline::Task::kind) != order.end();
  const std::vector<bool> is_for_weights =
      is_split ? steps_for_weights(graph) : std::vector<bool>(graph.steps.size(), false);
  StepTasks tasks;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const Phase phase = phase_of(graph.steps[i]);
    const pipeline::TaskKind kind = phase == Phase::forward  ? pipeline::TaskKind::forward
                                    : phase == Phase::update ? pipeline::TaskKind::update
                                    : is_for_weights[i]      ? pipeline::TaskKind::weight_backward
                                                             : pipeline::TaskKind::backward;
    tasks.steps[static_cast<std::size_t>(kind)].push_back(i);
  }
  divide_into_chunks(graph, tasks);
  const auto micros = std::ranges::count(order, pipeline::TaskKind::forward, &pipeline::Task::kind);
  const std::vector<Use> uses = uses_of(graph, plan, tasks);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    std::int64_t slots = 1;
    if (!uses[i].lasts_a_step && uses[i].first)
      slots = pipeline::slots_between(order, *uses[i].first, uses[i].last,
                                      uses[i].is_sent ? tasks_to_send : 0);
    const ValueRole role = graph.values[i].role;
    const bool is_early = role == ValueRole::received && plan.overlap.send_recv;
    if (role == ValueRole::input || (is_early && !uses[i].lasts_a_step)) ++slots;
    tasks.slots.push_back(std::min<std::int64_t>(micros, slots));
  }
  return tasks;
}

}  // namespace fourfold::compile
