#include "search/count_stages.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "search/built_graphs.h"

namespace fourfold::search {
namespace {

using plan::Infeasible;
using plan::PlannedModel;

/// How many layers each stage has, from the last ones.
std::vector<std::int64_t> numbers_of_layers(const std::vector<std::int64_t>& last_layers,
                                            std::int64_t layers) {
  std::vector<std::int64_t> result;
  std::int64_t begin = 0;
  for (const std::int64_t last : last_layers)
    result.push_back(last + 1 - std::exchange(begin, last + 1));
  result.push_back(layers - begin);
  return result;
}

CountedStage count_stage(const PlannedModel& planned, std::size_t stage) {
  const graph::Graph& train = planned.model.at(op::ProgramKind::train, MeshId(stage));
  std::vector<LinearOnMesh> linears = linears_of(train, planned.plan);
  return {demand_of(train, planned.plan), 0,
          axonn_elements(linears, planned.plan.meshes[stage],
                         static_cast<double>(planned.plan.batching.accumulation))};
}

std::vector<AxisId> axes_of_cuts(const op::Sharding& sharding) {
  std::vector<AxisId> axes;
  for (const op::Cuts& cuts : sharding.dims)
    for (const op::Cut& cut : cuts) axes.push_back(cut.axis);
  return axes;
}

/// What passes in training. Results are numbers, which take no time.
std::vector<CountedMessage> messages_of(const PlannedModel& planned) {
  std::vector<CountedMessage> messages;
  for (const plan::Edge& edge : planned.plan.edges) {
    if (edge.graph != op::ProgramKind::train) continue;
    const graph::Graph& sender = planned.model.at(op::ProgramKind::train, edge.from);
    if (sender.value(*sender.find(edge.value)).role == graph::ValueRole::result) continue;
    const std::size_t element = size_bytes(op::element_dtype(edge.element, planned.plan.compute));
    messages.push_back(
        {.from = edge.from.index(),
         .to = edge.to.index(),
         .is_backward = edge.phase == graph::Phase::backward,
         .is_once_a_step = edge.goes_once_a_step || edge.phase == graph::Phase::update,
         .bytes = static_cast<double>(edge.shape.elements()) * static_cast<double>(element),
         .sent = axes_of_cuts(edge.sent),
         .received = axes_of_cuts(edge.received)});
  }
  return messages;
}

class StageCounter {
 public:
  StageCounter(const Question& question, BuiltGraphs& graphs, const plan::PlanSpec& spec)
      : question_(question), graphs_(graphs), spec_(spec) {}

  std::variant<CountedStages, Infeasible> run() {
    const auto last = graphs_.last_layers(question_.layers, spec_);
    if (const auto* infeasible = std::get_if<Infeasible>(&last)) return *infeasible;
    result_.layers = numbers_of_layers(std::get<0>(last), question_.layers);
    auto infeasible = graphs_.has_equal_layers(spec_) ? count_few_layers() : count_all_layers();
    if (infeasible) return std::move(*infeasible);
    return std::move(result_);
  }

 private:
  plan::PlanSpec spec_of(std::vector<std::int64_t> layers) const {
    plan::PlanSpec spec = spec_;
    spec.pipeline.stages = static_cast<std::int64_t>(layers.size());
    spec.pipeline.layers = std::move(layers);
    return spec;
  }
  std::variant<PlannedModel, Infeasible> planned(const plan::PlanSpec& spec) const {
    const std::vector<std::int64_t>& layers = spec.pipeline.layers;
    const std::int64_t all = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
    return plan::plan_model(graphs_.of(all, spec), spec);
  }

  std::optional<Infeasible> count_all_layers() {
    auto made = planned(spec_of(result_.layers));
    if (auto* infeasible = std::get_if<Infeasible>(&made)) return std::move(*infeasible);
    const PlannedModel& model = std::get<PlannedModel>(made);
    for (std::size_t stage = 0; stage < result_.layers.size(); ++stage) {
      result_.kinds.push_back(count_stage(model, stage));
      result_.kind_of.push_back(stage);
    }
    result_.messages = messages_of(model);
    result_.meshes = {model.plan.meshes[0]};
    return std::nullopt;
  }

  std::optional<Infeasible> count_few_layers() {
    const std::int64_t few = std::max<std::int64_t>(spec_.checkpointing.layers, 1);
    plan::PlanSpec spec = spec_of({few, few, 2 * few, few});
    // What a stage asks for does not depend on the order in which it computes.
    spec.pipeline.schedule = pipeline::Schedule::one_f_one_b;
    const auto& made = graphs_.few_stages(spec, [&]() -> std::variant<FewStages, Infeasible> {
      const auto found = planned(spec);
      if (const auto* infeasible = std::get_if<Infeasible>(&found)) return *infeasible;
      const PlannedModel& model = std::get<PlannedModel>(found);
      return FewStages{count_stage(model, 0), count_stage(model, 1), count_stage(model, 2),
                       count_stage(model, 3), messages_of(model),    model.plan.meshes[0]};
    });
    if (const auto* infeasible = std::get_if<Infeasible>(&made)) return *infeasible;
    const auto& [first, middle, longer, last, messages, mesh] = std::get<FewStages>(made);
    std::map<std::pair<std::size_t, std::int64_t>, std::size_t> known;  // kinds
    const std::size_t stages = result_.layers.size();
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const std::size_t place = stage == 0 ? 0 : stage + 1 < stages ? 1 : 2;
      const CountedStage& small = *std::array{&first, &middle, &last}[place];
      const std::int64_t layers = result_.layers[stage];
      const auto [kind, is_new] = known.try_emplace({place, layers}, result_.kinds.size());
      result_.kind_of.push_back(kind->second);
      if (!is_new) continue;
      const double times = static_cast<double>(layers - few) / static_cast<double>(few);
      CountedStage counted{with_difference(small.demand, middle.demand, longer.demand, times), 0,
                           small.linears};
      if (layers > few) add_room(counted.demand, middle.demand, longer.demand);
      for (std::size_t axis = 0; axis < counted.linears.size(); ++axis)
        counted.linears[axis] += times * (longer.linears[axis] - middle.linears[axis]);
      result_.kinds.push_back(std::move(counted));
    }
    result_.meshes = {mesh};
    spread(messages, stages);
    return std::nullopt;
  }

  /// What runs beside computation reaches over some layers, however many there are.
  static void add_room(Demand& demand, const Demand& middle, const Demand& longer) {
    demand.room_bytes += longer.room_bytes - middle.room_bytes;
    demand.in_flight.apart_room += longer.in_flight.apart_room - middle.in_flight.apart_room;
  }

  /// What passes between the first two of four stages passes between all neighbours; what passes
  /// between the first and the last one still does.
  void spread(const std::vector<CountedMessage>& of_four, std::size_t stages) {
    for (const CountedMessage& message : of_four) {
      const auto [low, high] = std::minmax(message.from, message.to);
      const bool is_forward = message.from < message.to;
      const auto add = [&](std::size_t begin, std::size_t end) {
        CountedMessage added = message;
        added.from = is_forward ? begin : end;
        added.to = is_forward ? end : begin;
        result_.messages.push_back(std::move(added));
      };
      if (low == 0 && high == 3) add(0, stages - 1);
      if (low != 0 || high != 1) continue;
      for (std::size_t stage = 0; stage + 1 < stages; ++stage) add(stage, stage + 1);
    }
  }

  const Question& question_;
  BuiltGraphs& graphs_;
  const plan::PlanSpec& spec_;
  CountedStages result_;
};

}  // namespace

std::variant<CountedStages, Infeasible> count_stages(const Question& question, BuiltGraphs& graphs,
                                                     const plan::PlanSpec& spec) {
  return StageCounter(question, graphs, spec).run();
}

CountedStages with_own_meshes(const std::vector<const CountedStages*>& of_stages) {
  CountedStages result;
  result.layers = of_stages.front()->layers;
  for (std::size_t stage = 0; stage < of_stages.size(); ++stage) {
    const CountedStages& its = *of_stages[stage];
    require(its.layers == result.layers && its.meshes.size() == 1 &&
                its.messages.size() == of_stages.front()->messages.size(),
            "stages that are put together are of one cut");
    result.kind_of.push_back(stage);
    result.kinds.push_back(its.kinds[its.kind_of[stage]]);
    result.kinds.back().mesh = stage;
    result.meshes.push_back(its.meshes.front());
  }
  for (std::size_t i = 0; i < of_stages.front()->messages.size(); ++i) {
    CountedMessage message = of_stages.front()->messages[i];
    message.sent = of_stages[message.from]->messages[i].sent;
    message.received = of_stages[message.to]->messages[i].received;
    result.messages.push_back(std::move(message));
  }
  return result;
}

}  // namespace fourfold::search
