#include "compile/step_tasks.h"

#include <algorithm>
#include <map>
#include <set>
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

std::size_t stage_of(const Step& step) {
  return std::visit([](const auto& s) { return s.stage; }, step);
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

/// The tasks that touch a value.
struct Use {
  std::set<StepTasks::Key> tasks;
  std::vector<std::size_t> sent_along;  // edges
  bool lasts_a_step = false;            // one for all micro-batches
};

std::vector<Use> uses_of(const ShardedGraph& graph, const plan::Plan& plan,
                         const StepTasks& tasks) {
  std::vector<Use> uses(graph.values.size());
  for (const auto& [task, steps] : tasks.steps)
    for (const std::size_t i : steps) {
      const Step& step = graph.steps[i];
      const auto* node = std::get_if<Node>(&step);
      const auto* move = std::get_if<Move>(&step);
      const auto* handover = std::get_if<Handover>(&step);
      const bool is_once =
          phase_of(step) == Phase::update ||
          (move != nullptr && graph.value(move->to).is_converted_once) ||
          (node != nullptr && graph.values[node->outputs[0].index()].is_rounded_weight) ||
          (handover != nullptr && plan.edges[handover->edge].goes_once_a_step);
      const Values values = values_of(step);
      for (const auto* list : {&values.read, &values.written})
        for (const ValueId id : *list) {
          Use& use = uses[id.index()];
          use.tasks.insert(task);
          if (is_once) use.lasts_a_step = true;
          if (handover != nullptr && handover->sends) use.sent_along.push_back(handover->edge);
        }
    }
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (graph::is_sum(graph.values[i].role)) uses[i].lasts_a_step = true;
  return uses;
}

/// The first stage that reads an input in the forward phase brings it, or the first one of all.
void feed(const ShardedGraph& graph, const MeshOrder& order, StepTasks& tasks,
          std::vector<Use>& uses) {
  constexpr pipeline::TaskKind forward = pipeline::TaskKind::forward;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (graph.values[i].role != ValueRole::input) continue;
    const auto reader = uses[i].tasks.lower_bound({forward, 0});
    const bool is_read_forward = reader != uses[i].tasks.end() && reader->first == forward;
    const std::size_t first = order.stage_of(forward, order.tasks().front().stage),
                      stage = is_read_forward ? reader->second : first;
    tasks.fed_for.emplace(ValueId(i), stage);
    uses[i].tasks.emplace(forward, stage);
  }
}

/// In which tasks of the order a micro-batch's value begins and ends to be used.
struct Life {
  std::vector<std::size_t> begins, ends;  // by micro-batch, ascending
};

Life life_of(const Use& use, const MeshOrder& order) {
  Life life;
  for (std::int64_t micro = 0; micro < order.micros(); ++micro) {
    std::vector<std::size_t> places;
    for (const auto& [kind, stage] : use.tasks) places.push_back(order.place(kind, stage, micro));
    life.begins.push_back(std::ranges::min(places));
    life.ends.push_back(std::ranges::max(places));
  }
  return life;
}

/// How many micro-batches hold a value at once, `tasks_after` tasks longer than they use it: the
/// slots that it needs where micro-batch m takes slot m modulo their number.
std::int64_t slots_for(const Life& life, std::size_t tasks_after) {
  std::size_t most = 1, begun = 0;
  for (std::size_t micro = 0; micro < life.ends.size(); ++micro) {
    const std::size_t end = life.ends[micro] + tasks_after;
    while (begun < life.begins.size() && life.begins[begun] <= end) ++begun;
    most = std::max(most, begun - micro);
  }
  return static_cast<std::int64_t>(most);
}

/// By value that is received in each micro-batch: before which task.
std::map<ValueId, std::vector<std::size_t>> receipts_by_value(
    const ShardedGraph& graph, const std::vector<Receipt>& receipts) {
  std::map<ValueId, std::vector<std::size_t>> result;
  for (const Receipt& receipt : receipts)
    result[std::get<Handover>(graph.steps[receipt.step]).value].push_back(receipt.before);
  return result;
}

}  // namespace

StepTasks step_tasks(const ShardedGraph& graph, const plan::Plan& plan, const MeshOrder& order,
                     const std::vector<Receipt>& receipts, const Departures& departures) {
  const bool is_split = std::ranges::find(order.tasks(), pipeline::TaskKind::weight_backward,
                                          &pipeline::Task::kind) != order.tasks().end();
  const std::vector<bool> is_for_weights =
      is_split ? steps_for_weights(graph) : std::vector<bool>(graph.steps.size(), false);
  StepTasks tasks;
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    const pipeline::TaskKind kind =
        is_for_weights[i] ? pipeline::TaskKind::weight_backward : task_of(phase_of(graph.steps[i]));
    const std::size_t stage = order.stage_of(kind, stage_of(graph.steps[i]));
    tasks.steps[{kind, stage}].push_back(i);
  }
  divide_into_chunks(graph, tasks);
  std::vector<Use> uses = uses_of(graph, plan, tasks);
  feed(graph, order, tasks, uses);
  std::map<ValueId, std::vector<std::size_t>> received = receipts_by_value(graph, receipts);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    std::int64_t slots = 1;
    if (!uses[i].lasts_a_step && !uses[i].tasks.empty()) {
      Life life = life_of(uses[i], order);
      if (const auto its = received.find(ValueId(i)); its != received.end())
        life.begins = std::move(its->second);
      for (const std::size_t edge : uses[i].sent_along)
        for (std::int64_t micro = 0; micro < order.micros() && !order.is_one_task(); ++micro) {
          std::size_t& end = life.ends[static_cast<std::size_t>(micro)];
          end = std::max(end, departures.place(edge, micro));
        }
      slots = slots_for(life, uses[i].sent_along.empty() ? 0 : tasks_to_send);
    }
    if (graph.values[i].role == ValueRole::input) ++slots;
    tasks.slots.push_back(std::min(order.micros(), slots));
  }
  return tasks;
}

}  // namespace fourfold::compile
